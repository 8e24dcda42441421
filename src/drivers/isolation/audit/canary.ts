/**
 * Tries to read tenants' rows as the login of tenants' queries without a scope. The server must deny it. This
 * complements the queries of the catalog.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { type Finding, notExamined } from '../../../kernel/doctor/doctor.ts'
import { StorageFenced } from '../../../tenants/isolation/driver.ts'
import { closedOr } from '../connections/closed-database.ts'
import { loginOf } from '../roles/own-login-role.ts'
import type { PostgresServer } from '../server/postgres-server.ts'

const TIMEOUT_MS = 5_000
const MAX_TARGETS = 5
const INSUFFICIENT_PRIVILEGE = '42501'
/** The table or its schema was dropped concurrently. */
const GONE = new Set(['42P01', '3F000'])

export interface CanaryTarget {
  readonly schema: string
  readonly table: string
}

export interface CanaryOptions {
  /** A tenant's database; default: the placement's. */
  readonly database?: string
  /** Whether the scope role is tried, too, without a tenant; for rows that are guarded by policies. */
  readonly takesRole?: boolean
}

export async function* canary(
  server: PostgresServer,
  targets: readonly CanaryTarget[],
  { database, takesRole = false }: CanaryOptions = {},
): AsyncIterable<Finding> {
  if (targets.length === 0) return
  const { scopeRole } = server
  const client = new pg.Client({
    connectionString: await server.loginUrl(database),
    connectionTimeoutMillis: TIMEOUT_MS,
    application_name: 'tenantry doctor',
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    for (const target of targets) {
      for (const role of takesRole ? [undefined, scopeRole] : [undefined]) {
        if (await isReadable(client, target, role)) {
          const by = role ?? (database === undefined ? server.login : await loginOf(server, database))
          yield unscopedRead(server, target, { role: by, database })
        }
      }
    }
  } catch (error) {
    if (database !== undefined && StorageFenced.matches(closedOr(error))) return // fenced concurrently: no login may read there
    const where = database === undefined ? `on "${server.name}"` : `in the database "${database}" on "${server.name}"`
    yield notExamined(`Unscoped access ${where}`, error, server.log)
  } finally {
    await client.end().catch((error) => server.log.debug({ err: error }, 'a connection was not closed cleanly'))
  }
}

/** Returns some tables with tenants' rows. */
export async function canaryTargetsIn(
  client: pg.ClientBase,
  schemas: readonly string[],
  column?: string,
): Promise<CanaryTarget[]> {
  const { rows } = await client.query(
    `select nspname as schema, relname as table from pg_class join pg_namespace n on n.oid = relnamespace
     where nspname = any($1) and relkind in ('r', 'p')
       and ($2::text is null or exists (select from pg_attribute where attrelid = pg_class.oid and attname = $2))
     order by pg_class.oid limit $3`,
    [schemas, column ?? null, MAX_TARGETS],
  )
  return rows
}

async function isReadable(
  client: pg.Client,
  { schema, table }: CanaryTarget,
  role: string | undefined,
): Promise<boolean> {
  const name = `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(table)}`
  await client.query(`begin read only; set local statement_timeout = ${TIMEOUT_MS}`)
  try {
    if (role !== undefined) await client.query(`set local role ${pg.escapeIdentifier(role)}`)
    await client.query(`select from ${name} limit 1`)
    return true
  } catch (error) {
    const state = sqlState(error) ?? ''
    if (state === INSUFFICIENT_PRIVILEGE || GONE.has(state)) return false
    throw error
  } finally {
    await client.query('rollback')
  }
}

const unscopedRead = (
  { name }: PostgresServer,
  { schema, table }: CanaryTarget,
  { role, database }: { readonly role: string; readonly database: string | undefined },
): Finding => ({
  severity: 'error',
  code: 'isolation.unscoped-read',
  message: `${name}${database === undefined ? '' : `, database ${database}`}: table ${schema}.${table} is readable by the role ${role} outside of a tenant's scope`,
  remedy:
    'Check the other findings about this role and this table. Do not serve tenants from this server until they are fixed.',
})
