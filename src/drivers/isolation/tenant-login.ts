/**
 * The login that tenants' queries use, on each placement: `tenantry_tenant`, which is no superuser, owns nothing, does not
 * bypass row security and inherits nothing. Its rights are those of a scope role, which it takes for the length of a tenant's
 * scope; outside of one it may not read a single row.
 *
 * Unless the host gives `tenantUrl`, both roles are made at the first start and the password is kept sealed in the backoffice
 * database. Roles belong to a whole server: when the name is taken there by another installation, ours gets a suffix.
 */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { Secrets } from '../../kernel/crypto.ts'
import { randomToken } from '../../kernel/crypto.ts'
import { type Database, sqlState } from '../../kernel/database.ts'
import type { PlacementUrls } from '../../tenants/isolation.ts'
import type { TenantTables } from '../../tenants/tables.ts'

const LOGIN = 'tenantry_tenant'
const DUPLICATE_OBJECT = new Set(['42710', '23505'])
const INSUFFICIENT_PRIVILEGE = '42501'

export interface PlacementConfig {
  /** Owns the tenants' schemas and does DDL. */
  readonly url: string
  /** The login of tenants' queries; made at the first start when absent. */
  readonly tenantUrl?: string
}

/** Makes sure that the login and its role exist, and answers how to connect. Safe in any number of processes at once. */
export function preparePlacement(
  name: string,
  config: PlacementConfig,
  database: Database,
  secrets: Secrets,
): Promise<PlacementUrls> {
  return database.transaction(async () => {
    await database.sql(`select pg_advisory_xact_lock(hashtextextended('tenantry placement ' || $1, 0))`, [name])
    const kept = await database
      .query<TenantTables>()
      .selectFrom('placementLogins')
      .selectAll()
      .where('placement', '=', name)
      .executeTakeFirst()
    const given = config.tenantUrl ? decodeURIComponent(new URL(config.tenantUrl).username) : undefined
    if (kept && (given === undefined ? kept.password !== null : kept.login === given)) {
      const tenantUrl =
        config.tenantUrl ?? withLogin(config.url, kept.login, secrets.open(kept.password ?? '', binding(name)))
      return { name, url: config.url, tenantUrl, scopeRole: kept.scopeRole }
    }
    const password = given === undefined ? randomToken() : null
    const { login, scopeRole } = await makeRoles(config.url, { given, password, scopeRole: kept?.scopeRole })
    const row = { placement: name, login, scopeRole, password: password && secrets.seal(password, binding(name)) }
    await database
      .query<TenantTables>()
      .insertInto('placementLogins')
      .values(row)
      .onConflict((conflict) => conflict.column('placement').doUpdateSet(row))
      .execute()
    return {
      name,
      url: config.url,
      tenantUrl: config.tenantUrl ?? withLogin(config.url, login, password ?? ''),
      scopeRole,
    }
  })
}

const binding = (placement: string): string => `placement_logins ${placement}`

interface Wish {
  /** The host's own login; absent: one is made. */
  readonly given: string | undefined
  readonly password: string | null
  /** The role that has rights on the tenants' rows already; another login takes it over. */
  readonly scopeRole: string | undefined
}

async function makeRoles(url: string, { given, password, scopeRole: kept }: Wish) {
  const client = new pg.Client({ connectionString: url, application_name: 'tenantry setup' })
  await client.connect()
  try {
    for (let attempt = 0; ; attempt++) {
      const login = given ?? (attempt === 0 ? LOGIN : `${LOGIN}_${randomName()}`)
      const scopeRole = kept ?? (given === undefined ? `${login}_scope` : `${LOGIN}_scope_${suffix(given)}`)
      const statements = [
        ...(given === undefined ? loginStatements(login, password ?? '') : []),
        ...(kept === undefined ? [`create role ${pg.escapeIdentifier(scopeRole)} nologin noinherit`] : []),
        `grant ${pg.escapeIdentifier(scopeRole)} to ${pg.escapeIdentifier(login)}`,
      ]
      try {
        await client.query(`begin; ${statements.join('; ')}; commit`)
        return { login, scopeRole }
      } catch (error) {
        await client.query('rollback')
        const code = sqlState(error)
        if (code && DUPLICATE_OBJECT.has(code)) {
          if (given !== undefined && (await isMember(client, given, scopeRole))) return { login, scopeRole }
          if (given === undefined && attempt < 5) continue
        }
        if (code === INSUFFICIENT_PRIVILEGE) throw new Error(remedy(statements), { cause: error })
        throw error
      }
    }
  } finally {
    await client.end()
  }
}

function loginStatements(login: string, password: string): string[] {
  const quoted = pg.escapeIdentifier(login)
  return [
    `create role ${quoted} login nosuperuser nobypassrls noinherit nocreatedb nocreaterole password ${pg.escapeLiteral(password)}`,
    `alter role ${quoted} set search_path = pg_catalog`,
  ]
}

async function isMember(client: pg.Client, login: string, role: string): Promise<boolean> {
  const { rows } = await client.query(`select pg_has_role($1, $2, 'member') as member`, [login, role])
  return rows[0].member
}

const remedy = (statements: readonly string[]): string =>
  [
    'The database role of `url` may not create roles. Let an administrator run these statements (with a password of your own),',
    "then put the login's URL into `tenantUrl`; or give the role CREATEROLE:",
    ...statements.map((statement) => `  ${statement.replace(/password '.*'/, "password '…'")};`),
  ].join('\n')

function withLogin(url: string, login: string, password: string): string {
  const changed = new URL(url)
  changed.username = encodeURIComponent(login)
  changed.password = encodeURIComponent(password)
  return changed.href
}

const randomName = (): string => randomUUID().slice(0, 8)

const suffix = (login: string): string => login.replace(/[^a-z0-9_]/gi, '_').slice(0, 40)
