/**
 * One PostgreSQL server (a placement) as the drivers use it: a small pool of the owner for DDL, and one pool of the tenant
 * login for every tenant's queries. A tenant pool whose role could see more than it should is refused.
 */
import pg from 'pg'
import type { Logger } from '../../kernel/logger.ts'
import type { PlacementUrls } from '../../tenants/isolation.ts'
import { prepareStatements } from './postgres-migrator.ts'

const OWNER_CONNECTIONS = 4
const CONNECT_TIMEOUT_MS = 5_000
const LOCK_TIMEOUT_MS = 10_000

export class PostgresServer {
  readonly scopeRole: string
  readonly tenants: pg.Pool
  readonly #owner: pg.Pool
  #prepared: Promise<void> | undefined

  constructor({ name, url, tenantUrl, scopeRole }: PlacementUrls, maxConnections: number, log: Logger) {
    this.scopeRole = scopeRole
    const open = (connectionString: string, max: number, purpose: string) => {
      const pool = new pg.Pool({
        connectionString,
        max,
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        keepAlive: true,
        application_name: `tenantry ${purpose}`,
      })
      // One that is lost while in use fails the next statement; unheard, its 'error' event would end the process.
      pool.on('connect', (client) => client.on('error', () => undefined))
      pool.on('error', (error) => {
        if (!pool.ending) log.warn({ err: error, placement: name }, 'an idle connection of a placement was lost')
      })
      return pool
    }
    this.#owner = open(url, OWNER_CONNECTIONS, 'ddl')
    this.tenants = open(tenantUrl, maxConnections, 'tenants')
    this.tenants.options.verify = (client, done) => {
      refuseMightyRole(client).then(() => done(), done)
    }
  }

  /**
   * One transaction of the owner, alone among all processes for this storage. It must be able to run again from the start.
   */
  async administer<T>(locator: string, work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
    this.#prepared ??= this.#prepare()
    await this.#prepared
    const client = await this.#owner.connect()
    let isClean = false
    try {
      await client.query(
        `begin; select pg_advisory_xact_lock(hashtextextended(${pg.escapeLiteral(locator)}, 1));
         set local lock_timeout = ${LOCK_TIMEOUT_MS}`, // after the first: who waits for another run finds it done
      )
      const result = await work(client)
      await client.query('commit')
      isClean = true
      return result
    } catch (error) {
      await client.query('rollback').then(
        () => {
          isClean = true
        },
        () => undefined, // the connection is gone; it is destroyed below
      )
      throw error
    } finally {
      client.release(!isClean)
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#owner.end(), this.tenants.end()])
  }

  async #prepare(): Promise<void> {
    try {
      await this.#owner.query(prepareStatements(this.scopeRole))
    } catch (error) {
      this.#prepared = undefined
      throw error
    }
  }
}

/** What a role is or may become, and why it must not have tenants' queries. */
const MIGHT = `
  select rolname as role, rolname = session_user as itself, case
      when rolsuper then 'is a superuser'
      when rolbypassrls then 'bypasses row security'
      when rolname in ('pg_read_all_data', 'pg_write_all_data') then 'may read or write everything'
      when rolname = 'pg_database_owner' or exists (
        select from pg_shdepend
        where refclassid = 'pg_authid'::regclass and refobjid = pg_roles.oid and deptype = 'o'
          and dbid in (0, (select oid from pg_database where datname = current_database()))
      ) then 'owns something in the database'
    end as fault
  from pg_roles where pg_has_role(session_user, oid, 'member') order by itself desc`

async function refuseMightyRole(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query(MIGHT)
  const mighty = rows.find(({ fault }) => fault)
  if (!mighty) return
  const who = mighty.itself ? `the role "${mighty.role}"` : `the role may become "${mighty.role}", which`
  throw new Error(`tenantUrl: ${who} ${mighty.fault}; tenants' queries must use one that does not`)
}
