/**
 * The id of the installation: created at the first start and stored in the backoffice, so that it survives a restore.
 * It is part of names on shared servers, such as tenant databases, and identifies them regardless of the configuration.
 */
import { randomInt } from 'node:crypto'
import type { Database } from '../../kernel/database/database.ts'

/** With an epoch of 6 and a tenant id of 48 characters, a database name has the maximum of 63 bytes. */
const LENGTH = 6

/** Six letters or digits. Concurrent first calls return the same id. */
export async function installationId(database: Database): Promise<string> {
  const read = async () => (await database.sql('select id from multitenancy.installation')).rows[0]?.id
  const kept = await read()
  if (kept !== undefined) return kept
  const made = randomInt(36 ** LENGTH)
    .toString(36)
    .padStart(LENGTH, '0')
  await database.sql('insert into multitenancy.installation (id) values ($1) on conflict do nothing', [made])
  return read()
}
