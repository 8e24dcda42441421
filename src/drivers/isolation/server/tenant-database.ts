/**
 * Manages one database that belongs to one tenant.
 *
 *   make ──► copy of the template, only for its owner ──open──► the login may connect ──close──► only the owner again
 *
 * - CREATE DATABASE cannot run in a transaction. A copy becomes the tenant's storage when the login receives the right
 *   to connect, which happens when its content is complete. The next run continues with the copy of an interrupted one.
 * - The login is the tenant's own (own-login-role.ts), or that of the placement. Rights on a database are in a catalog
 *   that all databases of a server share, so they are changed from the placement's database.
 * - The creation holds a lock that `drop` waits for, and checks under it whether the storage was abandoned. So a late
 *   run creates no database after the drop.
 * - `close` revokes the right to connect and ends the login's sessions. The owner may still connect, to migrate a
 *   suspended tenant.
 */
import pg from 'pg'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import type { MakingOptions, StoredLocation } from '../../../tenants/isolation/driver.ts'
import { INSTALLATION_SETTING } from '../roles/installation-setting.ts'
import { dropOwnLogin, isOpenTo, loginOf, makeOwnLogin } from '../roles/own-login-role.ts'
import { lockOf } from '../transactions/owner-transaction.ts'
import { locked, lockedWithTimeout } from '../transactions/storage-lock.ts'
import { endSessions } from './end-sessions.ts'
import type { PostgresServer } from './postgres-server.ts'

/** Mark of an interrupted drop: such a database can only be dropped. */
const INVALID = -2
const INSUFFICIENT_PRIVILEGE = '42501'
const IN_USE = '55006'
const QUERY_CANCELED = '57014'
/** The server itself waits 5 s at each attempt until no session uses the template. */
const ATTEMPTS = 5
const DROPPED_WITHIN_MS = 60_000
const RETRY_AFTER_SECONDS = 30

const AWAITED = { isAwaited: true }

/** Serializes the copies of one process, so that a waiting one holds no connection. */
const copying = new WeakMap<PostgresServer, Promise<unknown>>()

/**
 * Key of the lock for creation and drop. It differs from the lock for rights, so that a fence need not wait for a copy.
 */
const existenceOf = (name: string): string => `hashtextextended(${pg.escapeLiteral(name)}, 3)`

/** Copies `template` unless the database exists. Copies of the same template are serialized over all processes. */
export async function makeDatabase(
  server: PostgresServer,
  name: string,
  template: string,
  { assertNotAbandoned }: MakingOptions,
): Promise<void> {
  const database = pg.escapeIdentifier(name)
  const copyOnce = () =>
    server.owned((client) =>
      lockedWithTimeout(client, existenceOf(name), async () => {
        await assertNotAbandoned?.()
        const { rows } = await client.query('select datconnlimit from pg_database where datname = $1', [name])
        if (rows[0]?.datconnlimit === INVALID) await dropWithTimeout(client, `drop database ${database}`)
        else if (rows[0]) return
        const alone = `hashtextextended(${pg.escapeLiteral(template)}, 2)`
        await locked(client, alone, () => copy(client, database, template))
      }),
    )
  const copied = (copying.get(server) ?? Promise.resolve()).then(copyOnce)
  copying.set(
    server,
    copied.catch(() => undefined), // heard by its own caller
  )
  await copied
  const role = pg.escapeIdentifier(server.scopeRole)
  await server.administer(name, async (client) => {
    await client.query(
      `revoke all on database ${database} from public; grant temporary on database ${database} to ${role}`,
    )
    await makeOwnLogin(server, client, name)
  })
}

/**
 * Allows only the login of the tenant to connect for tenants' queries. A missing database is opened at its creation.
 */
export async function openDatabase(server: PostgresServer, name: string): Promise<void> {
  const database = pg.escapeIdentifier(name)
  await server.administer(
    name,
    async (client) => {
      const { rows } = await client.query('select datallowconn from pg_database where datname = $1', [name])
      if (!rows[0]) return
      if (!rows[0].datallowconn) await client.query(`alter database ${database} allow_connections true`)
      const login = await loginOf(server, name)
      await client.query(`grant connect on database ${database} to ${pg.escapeIdentifier(login)}`)
    },
    AWAITED,
  )
}

/** Allows only the owner to connect, and ends the sessions of tenants' queries. */
export async function closeDatabase(server: PostgresServer, name: string, adoptedBy?: string): Promise<void> {
  await server.administer(
    name,
    async (client) => {
      if (!(await isOwn(client, name, adoptedBy))) return
      const { rows } = await client.query(
        `select distinct case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end as grantee
       from pg_database, aclexplode(coalesce(datacl, acldefault('d', datdba)))
       where datname = $1 and privilege_type = 'CONNECT' and grantee <> datdba`,
        [name],
      )
      const grantees = rows.map(({ grantee }) => grantee)
      if (grantees.length === 0) return
      await client.query(`revoke connect on database ${pg.escapeIdentifier(name)} from ${grantees.join(', ')}`)
      if (await isOpen(server, client, name)) {
        throw new Error(
          `"${await loginOf(server, name)}" may connect to every database, because it is a member of a role with this right`,
        )
      }
    },
    AWAITED,
  )
  await endSessions(server, name)
}

/**
 * Gives an own login to a database that uses the login of the placement, and ends the sessions there. A closed database
 * stays closed. Safe to repeat.
 */
export async function giveOwnLogin(server: PostgresServer, name: string): Promise<void> {
  const database = pg.escapeIdentifier(name)
  await server.administer(name, async (client) => {
    await makeOwnLogin(server, client, name)
    const login = await loginOf(server, name)
    if (login === server.login || !(await isOpen(server, client, name))) return
    await client.query(
      `grant connect on database ${database} to ${pg.escapeIdentifier(login)};
       revoke connect on database ${database} from ${pg.escapeIdentifier(server.login)}`,
    )
  })
  await endSessions(server, name)
}

export const isClosed = (server: PostgresServer, name: string): Promise<boolean> =>
  server.ownedWithTimeout(async (client) => !(await isOpen(server, client, name)))

interface DropOptions {
  readonly withinMs?: number
  /** Only a database that this installation has adopted. The locks exclude a drop by another process after the check. */
  readonly adoptedBy?: string
}

/** Ends all connections. A database that could not be dropped in time is `INVALID`, and is dropped the next time. */
export async function dropDatabase(
  server: PostgresServer,
  name: string,
  { withinMs = DROPPED_WITHIN_MS, adoptedBy }: DropOptions = {},
): Promise<void> {
  const drop = `drop database if exists ${pg.escapeIdentifier(name)}`
  await closeDatabase(server, name, adoptedBy)
  await server.owned((client) =>
    lockedWithTimeout(client, existenceOf(name), () =>
      lockedWithTimeout(client, lockOf(name), async () => {
        if (!(await isOwn(client, name, adoptedBy))) return
        try {
          await dropWithTimeout(client, `${drop} with (force)`, withinMs)
        } catch (error) {
          if (sqlState(error) !== INSUFFICIENT_PRIVILEGE) throw error
          await dropWithTimeout(client, drop, withinMs) // the owner has no right to end the server's own processes
        }
        await dropOwnLogin(server, client, name)
      }),
    ),
  )
}

/**
 * To drop a database, a server waits until each session of any database has processed a barrier. A session that waits
 * for its client in a COPY does not, so the wait has a timeout.
 */
async function dropWithTimeout(client: pg.ClientBase, drop: string, withinMs = DROPPED_WITHIN_MS): Promise<void> {
  await client.query(`set statement_timeout = ${Number(withinMs)}`)
  try {
    await client.query(drop)
  } catch (error) {
    throw sqlState(error) === QUERY_CANCELED ? await stillThere(client, error) : error
  } finally {
    await client.query('reset statement_timeout').catch((error) => {
      throw new Error('A connection could not reset its timeout', { cause: error }) // and is not reused
    })
  }
}

async function stillThere(client: pg.ClientBase, cause: unknown): Promise<Error> {
  const { rows } = await client.query(
    `select pid, application_name as name from pg_stat_activity where state = 'active' and wait_event_type = 'Client' order by pid`,
  )
  const busy = rows.map(({ pid, name }) => `${pid} (${name})`).join(', ')
  return DependencyUnavailable(
    'The database of the tenant could not be dropped yet, because the server waits for busy sessions. The drop is tried again.',
    {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
      cause: new Error(`sessions that wait for their clients: ${busy || 'none'}`, { cause }),
    },
  )
}

/** Id of the installation that has adopted a row of `pg_database`. */
const ADOPTED_BY = `(select split_part(setting, '=', 2) from pg_db_role_setting, unnest(setconfig) setting
  where setdatabase = pg_database.oid and setrole = 0 and setting like '${INSTALLATION_SETTING}=%')`

/** @param adoptedBy absent for a database that Tenantry has created */
async function isOwn(client: pg.ClientBase, name: string, adoptedBy: string | undefined): Promise<boolean> {
  if (adoptedBy === undefined) return true
  const { rows } = await client.query(`select ${ADOPTED_BY} as "adoptedBy" from pg_database where datname = $1`, [name])
  return rows[0]?.adoptedBy === adoptedBy
}

interface StoredDatabase extends StoredLocation {
  /** Id of the installation that has adopted the database; null if Tenantry created it. */
  readonly adoptedBy: string | null
}

/** Databases of tenants, opened or not: the scope role has a right on each. */
export async function databasesOf(server: PostgresServer): Promise<StoredDatabase[]> {
  const { rows } = await server.ownedWithTimeout((client) =>
    client.query(
      `select datname as locator, not ${isOpenTo('$2', '$1')} as "isFenced",
         ${ADOPTED_BY} as "adoptedBy"
       from pg_database where datname <> current_database() and exists (
         select from aclexplode(datacl) where grantee = (select oid from pg_roles where rolname = $1))
       order by datname`,
      [server.scopeRole, server.login],
    ),
  )
  return rows
}

async function copy(client: pg.ClientBase, database: string, template: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await client.query(`create database ${database} template ${pg.escapeIdentifier(template)} strategy wal_log`)
      return
    } catch (error) {
      if (sqlState(error) === INSUFFICIENT_PRIVILEGE) throw await rejection(client, template, error)
      if (sqlState(error) !== IN_USE || attempt === ATTEMPTS) throw error
    }
  }
}

async function rejection(client: pg.ClientBase, template: string, cause: unknown): Promise<Error> {
  const { rows } = await client.query(
    'select quote_ident(rolname) as role, rolcreatedb from pg_roles where rolname = current_user',
  )
  const { role, rolcreatedb } = rows[0]
  const remedy = rolcreatedb
    ? `alter database ${pg.escapeIdentifier(template)} is_template true`
    : `alter role ${role} createdb`
  return new Error(
    `The database role of \`url\` may not create databases for tenants. Have an administrator run this statement:\n  ${remedy};`,
    { cause },
  )
}

async function isOpen(server: PostgresServer, client: pg.ClientBase, name: string): Promise<boolean> {
  const { rows } = await client.query(`select ${isOpenTo('$2', '$3')} as open from pg_database where datname = $1`, [
    name,
    server.login,
    server.scopeRole,
  ])
  return rows[0]?.open === true
}
