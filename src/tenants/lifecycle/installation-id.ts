/**
 * The id of this installation: made at its first start, and kept in the backoffice for good, so that a restored one has it too. What
 * bears a name on a server that others may use, as a tenant's database does, bears this: whatever the configuration says by now, an
 * installation knows its own.
 */
import { randomInt } from 'node:crypto'
import type { Database } from '../../kernel/database/database.ts'

/** With an epoch of six and an id of 48 they fill the 63 bytes that the name of a database may have. */
const LENGTH = 6

/** Six letters or digits. Of any number of processes that ask first, one makes it. */
export async function installationId(database: Database): Promise<string> {
  const made = randomInt(36 ** LENGTH)
    .toString(36)
    .padStart(LENGTH, '0')
  await database.sql('insert into multitenancy.installation (id) values ($1) on conflict do nothing', [made])
  const { rows } = await database.sql('select id from multitenancy.installation')
  return rows[0].id
}
