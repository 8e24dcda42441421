/** Reads the application key of the service, and describes a missing or a wrong one. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from '../kernel/base/logger.ts'
import { isAppKey } from '../kernel/crypto/crypto.ts'
import { Database } from '../kernel/database/database.ts'
import { isBackoffice } from '../kernel/database/migrations.ts'
import { ConfigurationError, type ServiceConfig } from './config.ts'
import { hasCluster, keptSecret, openDataDirectory } from './data-directory.ts'

type Configured = Pick<ServiceConfig, 'appKey' | 'databaseUrl' | 'dataDirectory'>

const LOST = 'docs/disaster-recovery.md describes the recovery from a lost key'
const fileOf = ({ dataDirectory }: Configured): string => join(dataDirectory, 'app-key')

/**
 * The configured key, or the key of the data directory, which is generated before the backoffice exists.
 * @throws ConfigurationError instead of generating a key for an existing backoffice
 */
export async function appKeyOf(config: Configured, log: Logger): Promise<string> {
  if (config.appKey !== undefined) return config.appKey
  const isMissing = () => !existsSync(fileOf(config))
  // A concurrent first start stores its key before it creates the backoffice. So the second look finds this key.
  if (isMissing() && (await hasBackoffice(config, log)) && isMissing()) {
    throw new ConfigurationError([
      `TENANTRY_APP_KEY: not set, and ${fileOf(config)} does not exist, but the backoffice does. Restore this file, or ` +
        `set TENANTRY_APP_KEY to its content; former keys belong in TENANTRY_OLD_APP_KEYS. ${LOST}.`,
    ])
  }
  const key = keptSecret(openDataDirectory(config.dataDirectory), 'app-key')
  if (isAppKey(key)) return key
  throw new ConfigurationError([
    `${fileOf(config)}: must be 32 bytes in base64. Restore this file, or set TENANTRY_APP_KEY to its former content; ` +
      `former keys belong in TENANTRY_OLD_APP_KEYS. ${LOST}.`,
  ])
}

export const wrongAppKey = (config: Configured): ConfigurationError =>
  new ConfigurationError([
    `TENANTRY_APP_KEY: the key from ${config.appKey === undefined ? fileOf(config) : 'this variable'} does not decrypt the ` +
      'secrets of the backoffice. Set TENANTRY_APP_KEY to the key that encrypted them. A service without this variable ' +
      `keeps its key in ${fileOf(config)}. After a rotation, add the former key to TENANTRY_OLD_APP_KEYS. ${LOST}.`,
  ])

async function hasBackoffice({ databaseUrl, dataDirectory }: Configured, log: Logger): Promise<boolean> {
  if (databaseUrl === undefined) return hasCluster(dataDirectory)
  const database = new Database({ url: databaseUrl, max: 1 }, log)
  try {
    return await isBackoffice(database)
  } finally {
    await database.close()
  }
}
