/**
 * The store in a table of the backoffice database: it needs no further server, and its data (sessions) survives a
 * restart.
 *
 * - It has its own connections. On the caller's connection it would join the caller's transaction; on the pool of that
 *   connection, many transactions that use the store could hold all connections and deadlock.
 * - Each operation is one statement, so that PostgreSQL's row lock makes `take` and `increment` exact. Time is that of
 *   the server.
 * - An expired row is invisible immediately. Every hundredth write removes up to a thousand expired rows, ten times
 *   faster than writes create them, without a timer or a job.
 */

import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import { type Database, type Prepared, SCHEMA, type SqlResult, sqlState } from '../../kernel/database/database.ts'
import { checkEntry, checkMessage, type Owner, type Store, type StoreDriver } from '../../kernel/store/store.ts'
import { failureOf, NOW, PostgresCounters } from './postgres-counters.ts'
import { PostgresSums } from './postgres-sums.ts'
import { storeTables } from './postgres-tables.ts'

const MAX_CONNECTIONS = 5
const TIMEOUT_MS = 1_000
const CHANNEL_PREFIX = 'tenantry.store.'
const WRITES_PER_SWEEP = 100
const ROWS_PER_SWEEP = 1_000
const NOT_A_NUMBER = '22P02'
const NUMBER_TOO_LARGE = '22003'

export interface PostgresStoreOptions {
  /** Maximum number of connections; default 5. */
  readonly max?: number
  /** Offset added to the server's clock, in ms, for tests. */
  readonly clockOffsetMs?: () => number
  /** Timeout of a response, in ms; default 1000. It does not apply to reads of the whole store. */
  readonly timeoutMs?: number
}

const TABLE = `${SCHEMA}.store`
const EXPIRY = `${NOW} + $5::float8 * interval '1 second'`

const GET = `select value from ${TABLE} where owner = $2 and key = $3 and (expires_at is null or expires_at > ${NOW})`

const LIST = `
  select owner as "tenantId", value from ${TABLE}
  where key = $2 and owner <> '' and (expires_at is null or expires_at > ${NOW})`

const SET = `
  insert into ${TABLE} (owner, key, value, expires_at) values ($2, $3, $4, ${EXPIRY})
  on conflict (owner, key) do update set value = excluded.value, expires_at = ${EXPIRY}`

const SET_IF_ABSENT = `
  insert into ${TABLE} as kept (owner, key, value, expires_at) values ($2, $3, $4, ${EXPIRY})
  on conflict (owner, key) do update set value = excluded.value, expires_at = ${EXPIRY} where kept.expires_at <= ${NOW}
  returning true`

const TAKE = `
  delete from ${TABLE} where owner = $2 and key = $3
  returning case when expires_at is null or expires_at > ${NOW} then value end as value`

const INCREMENT = `
  insert into ${TABLE} as kept (owner, key, value, expires_at) values ($2, $3, $4, ${EXPIRY})
  on conflict (owner, key) do update set
    value = case when kept.expires_at <= ${NOW} then excluded.value
                 else (kept.value::bigint + excluded.value::bigint)::text end,
    expires_at = ${EXPIRY}
  returning value`

/** Skips locked rows, so that it waits for no lock while it holds many rows, and cannot deadlock. */
const SWEEP = `
  delete from ${TABLE} where (owner, key) in (
    select owner, key from ${TABLE} where expires_at <= (select ${NOW})
    order by expires_at limit ${ROWS_PER_SWEEP} for update skip locked)`

const COUNT = `
  select (select count(*) from ${TABLE} where owner = $1)
    + (select count(*) from ${SCHEMA}.store_counters where tenant_id = $1)
    + (select count(*) from ${SCHEMA}.store_gauges where tenant_id = $1)
    + (select count(*) from ${SCHEMA}.store_sums where tenant_id = $1) as count`

export function postgresStore({
  max = MAX_CONNECTIONS,
  clockOffsetMs = () => 0,
  timeoutMs = TIMEOUT_MS,
}: PostgresStoreOptions = {}): StoreDriver {
  return {
    identity: 'postgres',
    tables: storeTables,
    open: ({ database, log }) => storeOn(database, log, { max, clockOffsetMs, timeoutMs }),
  }
}

function storeOn(
  base: Database,
  log: Logger,
  { max, clockOffsetMs, timeoutMs }: Required<PostgresStoreOptions>,
): Store {
  const database = base.apart(max)
  const counters = new PostgresCounters(base, { clockOffsetMs, timeoutMs })
  let writes = 0

  const run = async (statement: string | Prepared, values: readonly unknown[] = []): Promise<SqlResult> => {
    try {
      return await database.sql(statement, values)
    } catch (error) {
      throw failureOf(error)
    }
  }
  const sums = new PostgresSums(run, { clockOffsetMs, timeoutMs, log })
  const runWithTimeout = (text: string, values: readonly unknown[] = []) => run({ text, timeoutMs }, values)
  const runAtTime = (statement: string, ...values: unknown[]) => runWithTimeout(statement, [clockOffsetMs(), ...values])
  const sweepSometimes = async () => {
    writes += 1
    if (writes % WRITES_PER_SWEEP !== 0) return
    try {
      await runAtTime(SWEEP)
    } catch (error) {
      // The write itself has succeeded.
      log.warn({ err: error }, 'expired entries of the store could not be removed; a later write removes them')
    }
  }

  return {
    name: 'postgres',
    isCache: false,
    counters,
    sums,
    async get(owner, key) {
      checkEntry({ owner, key })
      const { rows } = await runAtTime(GET, ownerColumn(owner), key)
      return rows[0]?.value ?? null
    },
    async set(owner, key, value, ttlSeconds) {
      checkEntry({ owner, key, value, ttlSeconds })
      await runAtTime(SET, ownerColumn(owner), key, value, ttlSeconds ?? null)
      await sweepSometimes()
    },
    async setIfAbsent(owner, key, value, ttlSeconds) {
      checkEntry({ owner, key, value, ttlSeconds })
      const { rows } = await runAtTime(SET_IF_ABSENT, ownerColumn(owner), key, value, ttlSeconds ?? null)
      await sweepSometimes()
      return rows.length > 0
    },
    async take(owner, key) {
      checkEntry({ owner, key })
      const { rows } = await runAtTime(TAKE, ownerColumn(owner), key)
      return rows[0]?.value ?? null
    },
    async delete(owner, key) {
      checkEntry({ owner, key })
      await runWithTimeout(`delete from ${TABLE} where owner = $1 and key = $2`, [ownerColumn(owner), key])
    },
    async increment(owner, key, amount, ttlSeconds) {
      checkEntry({ owner, key, amount, ttlSeconds })
      const { rows } = await runAtTime(INCREMENT, ownerColumn(owner), key, String(amount), ttlSeconds ?? null).catch(
        rejectNonCounter,
      )
      await sweepSometimes()
      return Number(rows[0]?.value)
    },
    async list(key) {
      checkEntry({ owner: null, key })
      return (await run(LIST, [clockOffsetMs(), key])).rows
    },
    async publish(channel, message) {
      checkMessage({ channel, message })
      await run('select pg_notify($1, $2)', [CHANNEL_PREFIX + channel, message])
    },
    async subscribe(channel, onMessage, onGap) {
      checkMessage({ channel })
      try {
        return await base.listen(CHANNEL_PREFIX + channel, onMessage, onGap)
      } catch (error) {
        throw failureOf(error)
      }
    },
    async purge(tenantId) {
      checkEntry({ owner: tenantId })
      await Promise.all([counters.purge(tenantId), sums.purge(tenantId)])
      await run(`delete from ${TABLE} where owner = $1`, [tenantId])
    },
    async count(tenantId) {
      checkEntry({ owner: tenantId })
      return (await run(COUNT, [tenantId])).rows[0].count
    },
    async ping() {
      await runWithTimeout('select 1')
    },
    async close() {
      await Promise.all([database.close(), counters.close()])
    },
  }
}

const ownerColumn = (owner: Owner): string => owner ?? ''

function rejectNonCounter(error: unknown): never {
  const isNoCounter = [NOT_A_NUMBER, NUMBER_TOO_LARGE].includes(sqlState(error) ?? '')
  throw isNoCounter ? InvalidRequest('The value of this key is not a counter', { cause: error }) : error
}
