/** Makes the configuration of a tenancy: drivers, store and backup storage from their JSON forms. */
import { join } from 'node:path'
import type { Logger } from '../kernel/base/logger.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import type { Role, TenancyConfig } from '../tenancy/tenancy.ts'
import { archivesOf } from './archives.ts'
import type { ServiceConfig } from './config.ts'
import { defaultOf, isolationDrivers } from './isolation-drivers.ts'
import { storeOf } from './stores.ts'

interface Given extends Pick<TenancyConfig, 'needsSameSettings' | 'isCommand' | 'keepsTablesOf' | 'signal'> {
  readonly url: string
  readonly appKey: string
  readonly satellites: readonly Satellite[]
  readonly role: Role
  readonly allowsReadOnly?: boolean
  readonly logger: Logger | undefined
}

export async function tenancyConfigOf(config: ServiceConfig, { url, ...given }: Given): Promise<TenancyConfig> {
  const { isolation, defaultIsolation, backups, migrations, base, dataDirectory } = config
  const { placements, plans, tenants, erasure, circuit, resilience, egress, health, metrics, clock, oldAppKeys } =
    config
  return {
    ...given,
    oldAppKeys,
    database: { url, max: config.database?.max },
    store: await storeOf(config.store, config.redisUrl),
    isolation: isolationDrivers(isolation),
    defaultIsolation: defaultIsolation ?? defaultOf(isolation),
    backups: backups
      ? {
          ...backups,
          archives: archivesOf(backups, { base, otherwise: join(dataDirectory, 'backups') }),
        }
      : undefined,
    migrations: typeof migrations === 'function' ? await migrations() : migrations,
    placements,
    plans,
    tenants,
    erasure,
    circuit,
    resilience,
    egress,
    health,
    metrics,
    clock,
  }
}
