/**
 * One PostgreSQL server (a placement) as the drivers use it: a small pool of the owner for DDL, and one pool of the tenant
 * login for every tenant's queries. A tenant pool whose role could see more than it should is refused.
 */
import pg from 'pg'
import type { Logger } from '../../kernel/logger.ts'
import type { PlacementUrls } from '../../tenants/isolation.ts'
import { PREPARE } from './postgres-migrator.ts'

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
      await client.query(`begin; set local lock_timeout = ${LOCK_TIMEOUT_MS}`)
      await client.query('select pg_advisory_xact_lock(hashtextextended($1, 1))', [locator])
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
      await this.#owner.query(PREPARE)
    } catch (error) {
      this.#prepared = undefined
      throw error
    }
  }
}

async function refuseMightyRole(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query(
    `select rolname, rolsuper, rolbypassrls,
       exists (select from pg_namespace where nspowner = pg_roles.oid) as owns
     from pg_roles where rolname = session_user`,
  )
  const { rolname, rolsuper, rolbypassrls, owns } = rows[0]
  if (!rolsuper && !rolbypassrls && !owns) return
  const fault = rolsuper ? 'is a superuser' : rolbypassrls ? 'bypasses row security' : 'owns schemas'
  throw new Error(`tenantUrl: the role "${rolname}" ${fault}; tenants' queries must use one that does not`)
}
