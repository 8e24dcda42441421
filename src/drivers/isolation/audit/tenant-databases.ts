/**
 * Examines the databases of single tenants: queries their catalogs, and tries to read their rows without a scope. A few
 * databases are examined concurrently, each on a temporary connection.
 *
 * A database that cannot be examined is a finding. So is a missing one, although it may be expected: its tenant may be
 * in installation or deletion. The diagnosis `storage` reports databases that are missing unexpectedly.
 */

import { forEachConcurrent } from '../../../kernel/base/concurrency.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { type Finding, notExamined } from '../../../kernel/doctor/doctor.ts'
import { isOpenTo, loginOf } from '../roles/own-login-role.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { canary, canaryTargetsIn } from './canary.ts'
import { type CatalogSubject, queryCatalog, reading, type TenantDatabase } from './rules.ts'
import { rulesInside } from './tenant-database-rules.ts'

const MAX_CONCURRENT = 4
/** Findings are reported after each batch. */
const DATABASES_PER_BATCH = 32
const NO_SUCH_DATABASE = '3D000'

interface Inside extends Pick<CatalogSubject, 'extensionsSchema'> {
  /** Schema of the tenant's tables. */
  readonly schema: string
}

/** @param tenantOf tenant id by name of the database */
export async function* auditInside(
  server: PostgresServer,
  tenantOf: ReadonlyMap<string, string>,
  inside: Inside,
): AsyncIterable<Finding> {
  const databases = [...tenantOf].map(([name, tenantId]) => ({ name, tenantId }))
  for (let first = 0; first < databases.length; first += DATABASES_PER_BATCH) {
    const some = databases.slice(first, first + DATABASES_PER_BATCH)
    const open = await openDatabases(server, some)
    const found: Finding[][] = []
    await forEachConcurrent(some, MAX_CONCURRENT, async (database, index) => {
      found[index] = await examined(server, database, inside, open.has(database.name))
    })
    yield* found.flat()
  }
}

async function examined(
  server: PostgresServer,
  database: TenantDatabase,
  { schema, extensionsSchema }: Inside,
  isOpen: boolean,
): Promise<Finding[]> {
  const { name, tenantId } = database
  try {
    const tenantOf = new Map([[schema, tenantId]])
    const login = await loginOf(server, name)
    const subject = { server, tenantOf, extensionsSchema, database: { ...database, login } }
    const found = await queryCatalog(subject, rulesInside(server, login))
    if (!isOpen) return found // no login may connect
    const targets = await reading(server, (client) => canaryTargetsIn(client, [schema]), name)
    const answered = await Array.fromAsync(canary(server, targets, { database: name }))
    return [...found, ...answered.map((finding) => ({ ...finding, tenantId }))]
  } catch (error) {
    if (sqlState(error) === NO_SUCH_DATABASE) return [missing(server, database)]
    return [{ ...notExamined(`The database "${name}" on "${server.name}"`, error, server.log), tenantId }]
  }
}

const missing = ({ name: placement }: PostgresServer, { name, tenantId }: TenantDatabase): Finding => ({
  severity: 'info',
  code: 'isolation.database-missing',
  message: `${placement}: database ${name} not found, so its content was not examined`,
  remedy: 'Expected during the installation or deletion of its tenant; otherwise `storage.missing` reports it, too.',
  tenantId,
})

/** Names of the databases to which the login of their tenant may connect. */
async function openDatabases(
  server: PostgresServer,
  databases: readonly TenantDatabase[],
): Promise<ReadonlySet<string>> {
  const { rows } = await server.owned((client) =>
    client.query(`select datname from pg_database where datname = any($1) and ${isOpenTo('$2', '$3')}`, [
      databases.map(({ name }) => name),
      server.login,
      server.scopeRole,
    ]),
  )
  return new Set(rows.map(({ datname }) => datname))
}
