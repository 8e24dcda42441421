/**
 * Sums of the store in PostgreSQL. One statement notes a batch's number and adds its amounts, atomically.
 *
 * - A statement that has timed out may still run: a repetition of its batch waits for the row of its source, and then
 *   finds the result.
 * - All statements order their rows, so that two batches cannot deadlock.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { type Prepared, SCHEMA, type SqlResult } from '../../kernel/database/database.ts'
import {
  checkBatch,
  checkDay,
  checkReading,
  MAX_SUM,
  SUM_TTL_SECONDS,
  type Sum,
  type SumBatch,
  type SumOfDay,
  type Sums,
} from '../../kernel/store/sums.ts'
import { NOW } from './postgres-counters.ts'

const ADDITIONS_AT_ONCE = 1_000
const SUMS_PER_PAGE = 2_000
const ADDS_PER_SWEEP = 100
const TABLE = `${SCHEMA}.store_sums`
const SOURCES = `${SCHEMA}.store_sum_sources`

const ADD: Prepared = {
  name: 'tenantry add_sums',
  text: `
    with first as (
      insert into ${SOURCES} as kept (source, number, seen_at) values ($2, $3, ${NOW})
      on conflict (source) do update set number = excluded.number, seen_at = excluded.seen_at
        where kept.number < excluded.number
      returning true)
    insert into ${TABLE} as kept (day, tenant_id, name, sum)
    select $4::date, tenant_id, name, least(sum(amount), ${MAX_SUM})
    from unnest($5::text[], $6::text[], $7::bigint[]) as added (tenant_id, name, amount)
    where exists (select from first)
    group by tenant_id, name order by tenant_id collate "C", name collate "C"
    on conflict (day, tenant_id, name) do update set sum = least(kept.sum + excluded.sum, ${MAX_SUM})`,
}

const READ: Prepared = {
  name: 'tenantry read_sums',
  text: `
    select day::text, tenant_id as "tenantId", name, incarnation, sum
    from ${TABLE} where day = any($1::date[]) and tenant_id = $2`,
}

const PAGE = `
  select tenant_id as "tenantId", name, incarnation, sum from ${TABLE}
  where day = $1 and (tenant_id, name) > ($2, $3) order by tenant_id, name limit ${SUMS_PER_PAGE}`

const PURGE = `
  delete from ${TABLE} where (day, tenant_id, name) in (
    select day, tenant_id, name from ${TABLE} where tenant_id = $1 order by day, name for update)`

/** Amounts may be added to a day for a while after its end. */
const DAYS_KEPT = SUM_TTL_SECONDS / 86_400 + 1

/** Skips locked rows, so that it waits for no lock while it holds many rows. */
const SWEEP = `
  with sources as (delete from ${SOURCES} where seen_at < ${NOW} - interval '${DAYS_KEPT} days')
  delete from ${TABLE} where (day, tenant_id, name) in (
    select day, tenant_id, name from ${TABLE} where day < (select (${NOW} at time zone 'UTC')::date) - ${DAYS_KEPT}
    order by day limit 10000 for update skip locked)`

export interface PostgresSumsOptions {
  readonly clockOffsetMs: () => number
  readonly timeoutMs: number
  readonly log: Logger
}

export class PostgresSums implements Sums {
  readonly outliveProcess = true
  readonly additionsAtOnce = ADDITIONS_AT_ONCE
  readonly #run: (statement: Prepared, values: readonly unknown[]) => Promise<SqlResult>
  readonly #options: PostgresSumsOptions
  #adds = 0

  /** @param run throws the errors of the store */
  constructor(
    run: (statement: Prepared, values: readonly unknown[]) => Promise<SqlResult>,
    options: PostgresSumsOptions,
  ) {
    this.#run = run
    this.#options = options
  }

  async add(batch: SumBatch): Promise<void> {
    checkBatch(batch)
    const { day, source, number, additions } = batch
    await this.#withTimeout(ADD, [
      this.#options.clockOffsetMs(),
      source,
      number,
      day,
      additions.map(({ tenantId }) => tenantId),
      additions.map(({ name }) => name),
      additions.map(({ amount }) => amount),
    ])
    this.#adds += 1
    if (this.#adds % ADDS_PER_SWEEP === 0) await this.#sweep()
  }

  async read(tenantId: string, days: readonly string[]): Promise<readonly SumOfDay[]> {
    checkReading(tenantId, days)
    return (await this.#withTimeout(READ, [days, tenantId])).rows
  }

  async *pages(day: string): AsyncGenerator<readonly Sum[]> {
    checkDay(day)
    let last: Sum | undefined
    for (;;) {
      const values = [day, last?.tenantId ?? '', last?.name ?? '']
      const { rows }: { rows: readonly Sum[] } = await this.#run({ text: PAGE }, values)
      if (rows.length > 0) yield rows
      if (rows.length < SUMS_PER_PAGE) return
      last = rows.at(-1)
    }
  }

  async purge(tenantId: string): Promise<void> {
    await this.#run({ text: PURGE }, [tenantId])
  }

  /** A failure does not affect the batch, which has been added. A later batch removes the same rows. */
  async #sweep(): Promise<void> {
    const { clockOffsetMs, log } = this.#options
    try {
      await this.#withTimeout({ text: SWEEP }, [clockOffsetMs()])
    } catch (error) {
      log.warn({ err: error }, 'expired sums could not be removed; a later batch removes them')
    }
  }

  /**
   * Includes the wait for a connection, because connecting to an unresponsive server takes longer. A late statement may
   * still run.
   */
  #withTimeout(statement: Prepared, values: readonly unknown[]): Promise<SqlResult> {
    const { timeoutMs } = this.#options
    return withTimeout(this.#run({ ...statement, timeoutMs }, values), timeoutMs, () =>
      DependencyUnavailable(`The store did not respond within ${timeoutMs} ms`),
    )
  }
}
