/**
 * Counters of the store in PostgreSQL. Calls that arrive during a statement are batched into the next one
 * (`take_counters` in postgres-tables.ts): with one statement for each call, every call would wait for a commit and for
 * the row locks of the others.
 *
 * - All statements order their rows by tenant and name, so that they cannot deadlock.
 * - A call that times out fails for its caller. If it was still waiting, it is not sent; if it was sent, it may be
 *   counted.
 * - If the server has sent no response at all within the time limit, other calls fail immediately for a while
 *   (kernel/base/backoff.ts). A server that is slow for some calls only still receives calls.
 */

import { OutageBackoff } from '../../kernel/base/backoff.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import {
  type Database,
  isDatabaseUnavailable,
  type Prepared,
  SCHEMA,
  sqlState,
} from '../../kernel/database/database.ts'
import { isWriteOutage } from '../../kernel/database/write-failures.ts'
import {
  COUNTER_TTL_SECONDS,
  type Counted,
  type Counters,
  checkCounted,
  checkCounterName,
  checkCounterOwner,
  checkGauge,
  checkTakes,
  DAY_MS,
  MAX_COUNTED,
  type Take,
  type Taken,
} from '../../kernel/store/counters.ts'
import { batchOf, type Call } from './postgres-batch.ts'
import { type SessionClient, SessionPool } from './session-pool.ts'

const SESSIONS = 2
const CALLS_PER_STATEMENT = 500
const STATEMENTS_PER_SWEEP = 100
const DAYS_KEPT = (COUNTER_TTL_SECONDS * 1_000) / DAY_MS

/** The time, for statements whose first parameter is the clock's offset. */
export const NOW = `(clock_timestamp() + $1::float8 * interval '1 millisecond')`
const NOW_MS = `extract(epoch from ${NOW})::float8 * 1000`
/** A sub-select, so that it is one value for the whole statement and can be looked up in an index. */
const TODAY = `(select (${NOW} at time zone 'UTC')::date)`

const TAKE: Prepared = {
  name: 'tenantry take_counters',
  text: `select now_ms, counts_before, verdicts from ${SCHEMA}.take_counters($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
}

const READ: Prepared = {
  name: 'tenantry read_counter',
  text: `
    select ${NOW_MS} as "nowMs",
      (select count from ${SCHEMA}.store_counters where day = ${TODAY} and tenant_id = $2 and name = $3 and count > 0) as today,
      (select value from ${SCHEMA}.store_gauges where tenant_id = $2 and name = $3) as gauge`,
}

const READ_ALL: Prepared = {
  name: 'tenantry read_counters',
  text: `
    select ${NOW_MS} as "nowMs",
      (select coalesce(json_object_agg(name, count), '{}') from ${SCHEMA}.store_counters
        where day = ${TODAY} and tenant_id = $2 and count > 0) as today,
      (select coalesce(json_object_agg(name, value), '{}') from ${SCHEMA}.store_gauges where tenant_id = $2) as gauges`,
}

const PUT = `
  insert into ${SCHEMA}.store_gauges (tenant_id, name, value) values ($2, $3, $4)
  on conflict (tenant_id, name) do update set value = excluded.value
  returning ${NOW_MS} as "nowMs"`

const WITH_CLEARED = `least(count + cleared, ${MAX_COUNTED})`

const countedOn = (day: string) => `
  (select coalesce(json_object_agg(name, ${WITH_CLEARED}), '{}') from ${SCHEMA}.store_counters
    where day = (select ${day} from clock) and tenant_id = $2 and name = any($3::text[]) and count + cleared > 0)`

/** Reads the clock once, so that both days are consistent. */
const COUNTED = `
  with clock as materialized (select now, (now at time zone 'UTC')::date as day from (select ${NOW} as now) as looked)
  select extract(epoch from now)::float8 * 1000 as "nowMs",
    ${countedOn('day')} as today,
    ${countedOn('day - 1')} as yesterday
  from clock`

const CLEAR = `
  with standing as (delete from ${SCHEMA}.store_gauges where tenant_id = $2 and ($3::text is null or name = $3))
  update ${SCHEMA}.store_counters set cleared = ${WITH_CLEARED}, count = 0 where (day, tenant_id, name) in (
    select day, tenant_id, name from ${SCHEMA}.store_counters
    where day = ${TODAY} and tenant_id = $2 and ($3::text is null or name = $3) and count > 0 order by name for update)`

const PURGE = `
  with standing as (delete from ${SCHEMA}.store_gauges where tenant_id = $1)
  delete from ${SCHEMA}.store_counters where (day, tenant_id, name) in (
    select day, tenant_id, name from ${SCHEMA}.store_counters where tenant_id = $1 order by day, name for update)`

/** Skips locked rows, so that it waits for no lock while it holds many rows. */
const SWEEP = `
  delete from ${SCHEMA}.store_counters where (day, tenant_id, name) in (
    select day, tenant_id, name from ${SCHEMA}.store_counters where day < ${TODAY} - ${DAYS_KEPT}
    order by day limit 10000 for update skip locked)`

/** Counts by name. */
type CountsByName<Which extends string> = Record<Which, Record<string, number>> & { readonly nowMs: number }

export interface PostgresCountersOptions {
  readonly clockOffsetMs: () => number
  readonly timeoutMs: number
}

export class PostgresCounters implements Counters {
  readonly #sessions: SessionPool
  readonly #options: PostgresCountersOptions
  readonly #outage = new OutageBackoff()
  #respondedAt = Number.NEGATIVE_INFINITY
  #calls: Call[] = []
  #statements = 0

  constructor(database: Database, options: PostgresCountersOptions) {
    this.#sessions = new SessionPool(database.apart(SESSIONS), SESSIONS, options.timeoutMs)
    this.#options = options
  }

  async take(tenantId: string, takes: readonly Take[]): Promise<Taken> {
    checkCounterOwner(tenantId)
    checkTakes(takes)
    let call: Call | undefined
    const request = () =>
      new Promise<Taken>((resolve, reject) => {
        call = { tenantId, takes, resolve, reject, isLate: false }
        this.#calls.push(call)
        if (this.#calls.length === 1) this.#sendLater()
      })
    return this.#withTimeout(request, () => {
      if (call) call.isLate = true
    })
  }

  async read(tenantId: string, name: string) {
    checkCounterOwner(tenantId)
    checkCounterName(name)
    const [row] = await this.#run(READ, [this.#options.clockOffsetMs(), tenantId, name])
    return row as { today: number | null; gauge: number | null; nowMs: number }
  }

  async readAll(tenantId: string) {
    checkCounterOwner(tenantId)
    const [row] = await this.#run(READ_ALL, [this.#options.clockOffsetMs(), tenantId])
    const { today, gauges, nowMs } = row as CountsByName<'today' | 'gauges'>
    return { today: new Map(Object.entries(today)), gauges: new Map(Object.entries(gauges)), nowMs }
  }

  async put(tenantId: string, name: string, value: number): Promise<number> {
    checkCounterOwner(tenantId)
    checkGauge(name, value)
    const [row] = (await this.#run(PUT, [this.#options.clockOffsetMs(), tenantId, name, value])) as [{ nowMs: number }]
    return row.nowMs
  }

  async counted(tenantId: string, names: readonly string[]): Promise<Counted> {
    checkCounted(tenantId, names)
    const [row] = await this.#run(COUNTED, [this.#options.clockOffsetMs(), tenantId, names])
    const { today, yesterday, nowMs } = row as CountsByName<'today' | 'yesterday'>
    return { today: new Map(Object.entries(today)), yesterday: new Map(Object.entries(yesterday)), nowMs }
  }

  async clear(tenantId: string, name?: string): Promise<void> {
    checkCounterOwner(tenantId)
    if (name !== undefined) checkCounterName(name)
    await this.#run(CLEAR, [this.#options.clockOffsetMs(), tenantId, name ?? null])
  }

  async purge(tenantId: string): Promise<void> {
    await this.#run(PURGE, [tenantId])
  }

  close(): Promise<void> {
    return this.#sessions.close()
  }

  async #withTimeout<T>(request: () => Promise<T>, late: () => void): Promise<T> {
    if (!this.#outage.shouldTry) throw DependencyUnavailable('The store does not respond')
    const isTrial = this.#outage.isActive
    this.#outage.trying()
    const { timeoutMs } = this.#options
    try {
      return await withTimeout(request(), timeoutMs, () => {
        late()
        if (performance.now() - this.#respondedAt >= timeoutMs) this.#outage.failed()
        return DependencyUnavailable(`The store did not respond within ${timeoutMs} ms`)
      })
    } catch (error) {
      const isUnavailable = DependencyUnavailable.matches(error) && isDatabaseUnavailable(error.cause)
      if (isUnavailable || (isTrial && this.#outage.isActive)) this.#outage.failed()
      throw error
    }
  }

  #run(statement: string | Prepared, values: readonly unknown[]): Promise<readonly unknown[]> {
    let isLate = false
    const request = () =>
      new Promise<readonly unknown[]>((resolve, reject) => {
        const fail = (error: unknown) => reject(failureOf(error))
        this.#sessions.add({
          run: async (client) => {
            if (isLate) return
            const rows = this.#query(client, statement, values)
            await rows.then(resolve, fail)
            await rows
          },
          fail,
        })
      })
    return this.#withTimeout(request, () => {
      isLate = true
    })
  }

  async #query(client: SessionClient, statement: string | Prepared, values: readonly unknown[]): Promise<any[]> {
    const noteResponse = () => {
      this.#respondedAt = performance.now()
      this.#outage.answered()
    }
    try {
      const { rows } = await this.#sessions.query(client, statement, values)
      noteResponse()
      return rows
    } catch (error) {
      if (!isDatabaseUnavailable(error)) noteResponse() // an error of the server is a response, too
      throw error
    }
  }

  #sendLater(): void {
    let calls: Call[] = []
    this.#sessions.add({
      run: async (client) => {
        calls = this.#nextCalls()
        if (calls.length === 0) return
        try {
          await this.#send(client, calls)
        } catch (error) {
          for (const { reject } of calls) reject(failureOf(error))
          throw error
        }
        this.#statements += 1
        if (this.#statements % STATEMENTS_PER_SWEEP === 0) {
          await this.#query(client, SWEEP, [this.#options.clockOffsetMs()])
        }
      },
      fail: (error) => {
        for (const { reject } of this.#calls.splice(0)) reject(failureOf(error))
      },
    })
  }

  #nextCalls(): Call[] {
    const calls = this.#calls.splice(0, CALLS_PER_STATEMENT).filter(({ isLate }) => !isLate)
    if (this.#calls.length > 0) this.#sendLater()
    return calls
  }

  async #send(client: SessionClient, calls: readonly Call[]): Promise<void> {
    const batch = batchOf(calls)
    const [result] = await this.#query(client, TAKE, [this.#options.clockOffsetMs(), ...batch.values])
    batch.settle(result)
  }
}

/** SQL states of a lock timeout and of a cancelled statement. */
const TOO_SLOW = new Set(['55P03', '57014'])

export const failureOf = (error: unknown): unknown =>
  isWriteOutage(error) || TOO_SLOW.has(sqlState(error) ?? '')
    ? DependencyUnavailable('The store cannot be reached', { cause: error })
    : error
