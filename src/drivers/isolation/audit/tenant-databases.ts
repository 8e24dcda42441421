/**
 * What is inside of the databases that belong to one tenant each: their own catalogs, and one attempt to read their rows without a
 * scope. A few at a time, each by a connection that is closed again.
 *
 * A database that cannot be examined is a finding; so is one that is not there, which may be right: of a tenant that is being
 * installed or purged. Whether it should be there the diagnosis `storage` knows.
 */

import { forEachConcurrent } from '../../../kernel/base/concurrency.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import { type Finding, notExamined } from '../../../kernel/doctor/doctor.ts'
import { isOpenTo, loginOf } from '../roles/own-login-role.ts'
import type { PostgresServer } from '../server/postgres-server.ts'
import { canary, canaryTargetsIn } from './canary.ts'
import { type CatalogSubject, queryCatalog, reading, type TenantDatabase } from './rules.ts'
import { rulesInside } from './tenant-database-rules.ts'

const EXAMINED_AT_ONCE = 4
/** What was found in so many is told before the next are examined. */
const DATABASES_PER_BATCH = 32
const NO_SUCH_DATABASE = '3D000'

interface Inside extends Pick<CatalogSubject, 'extensionsSchema'> {
  /** With the tenant's tables. */
  readonly schema: string
}

/** @param tenantOf whose each database is, by its name. */
export async function* auditInside(
  server: PostgresServer,
  tenantOf: ReadonlyMap<string, string>,
  inside: Inside,
): AsyncIterable<Finding> {
  const databases = [...tenantOf].map(([name, tenantId]) => ({ name, tenantId }))
  for (let first = 0; first < databases.length; first += DATABASES_PER_BATCH) {
    const some = databases.slice(first, first + DATABASES_PER_BATCH)
    const open = await openOnes(server, some)
    const found: Finding[][] = []
    await forEachConcurrent(some, EXAMINED_AT_ONCE, async (database, index) => {
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
    if (!isOpen) return found // nobody may connect
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
  message: `${placement}: the database ${name} is not there, so nothing in it was examined`,
  remedy: 'Expected while its tenant is being installed or purged; else `storage.missing` says so too.',
  tenantId,
})

/** Those that the login of their tenant may connect to. */
async function openOnes(server: PostgresServer, databases: readonly TenantDatabase[]): Promise<ReadonlySet<string>> {
  const { rows } = await server.owned((client) =>
    client.query(`select datname from pg_database where datname = any($1) and ${isOpenTo('$2', '$3')}`, [
      databases.map(({ name }) => name),
      server.login,
      server.scopeRole,
    ]),
  )
  return new Set(rows.map(({ datname }) => datname))
}
