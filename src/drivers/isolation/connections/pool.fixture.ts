/** Opens connections to one database, each under the name of the requested database. */
import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, inject, vi } from 'vitest'
import { latch } from '../../../../test/support/latch.ts'
import { createLogger } from '../../../kernel/base/logger.ts'
import type { ConnectionLimits } from '../../../tenants/isolation/driver.ts'
import { createTestDatabase, type TestDatabase } from '../../../testing/base/database.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { Connections } from './pool.ts'
import type { AcquireRequest, PooledClient } from './pooled-client.ts'
import { type ProbeResult, probeServer } from './server-probe.ts'

const LIMITS: ConnectionLimits = { max: 2, perTenant: 2, queuePerTenant: 1_000, waitMs: 20_000 }

/** For one test file: after each test, its connections are closed. */
export function useConnections() {
  let database: TestDatabase
  let watcher: pg.Client
  const opened: Connections[] = []

  /** Returns the requested database of each connection that is open at the server. */
  const seen = async (): Promise<string[]> => {
    const { rows } = await watcher.query(
      `select application_name as name from pg_stat_activity where datname = $1 and backend_type = 'client backend' order by 1`,
      [new URL(database.url).pathname.slice(1)],
    )
    return rows.map(({ name }) => name)
  }

  beforeAll(async () => {
    database = await createTestDatabase(inject('postgresUrl'))
    watcher = new pg.Client({ connectionString: inject('postgresUrl') })
    await watcher.connect()
  })
  afterAll(async () => {
    await watcher.end()
    await database.drop()
  })
  afterEach(async () => {
    vi.useRealTimers()
    await Promise.all(opened.splice(0).map((connections) => connections.close()))
    await eventually(async () => expect(await seen()).toEqual([]))
  })

  return {
    get url() {
      return database.url
    },
    /** As the superuser. */
    query: (text: string, values?: unknown[]) => watcher.query(text, values),
    seen,
    /** Starts a statement that returns when `unblock` is called. */
    async queryBlocked(held: PooledClient) {
      const unblock = await latch(database.url, 'select pg_advisory_xact_lock(1)')
      return { pending: held.client.query('select pg_advisory_xact_lock(1)'), unblock }
    },
    /** Connects every requested database to the same one; its sessions have the requested name. */
    connectionsOf(
      limits: Partial<ConnectionLimits> = {},
      {
        maxSchemas = 1_000,
        url = database.url,
        probe = (): Promise<ProbeResult> => probeServer(url, 1_000),
        until = Promise.resolve(),
      } = {},
    ): Connections {
      const connections = new Connections({
        limits: { ...LIMITS, ...limits },
        maxSchemas,
        isPooled: false,
        probe,
        log: createLogger({ level: 'silent' }),
        open: async (name) => {
          if (name === 'missing') throw new Error('database not found')
          if (name.startsWith('hangs')) await until
          const client = new pg.Client({ connectionString: url, application_name: name, keepAlive: true })
          client.on('error', () => undefined)
          await client.connect()
          return client
        },
      })
      opened.push(connections)
      return connections
    },
  }
}

export const shared = (tenantId: string): AcquireRequest => ({ tenantId, database: '', schema: `t_${tenantId}` })
export const own = (tenantId: string): AcquireRequest => ({ tenantId, database: `of ${tenantId}`, schema: null })
export const queryName = async ({ client }: PooledClient): Promise<string> =>
  (await client.query('show application_name')).rows[0].application_name
