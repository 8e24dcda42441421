/**
 * Writes the sums of the store to daily rows.
 *
 * - A sum only grows, and a row takes the greater value. So repeated and concurrent rollups in any order have the same result.
 * - A sum that starts again in an emptied store has another incarnation, and another row.
 * - The tenant is locked against a purge while its rows are written. Otherwise rows would remain after the purge.
 */

import type { Kernel } from '../../kernel/kernel.ts'
import { DAY_MS, dateOf, dayOf } from '../../kernel/store/counters.ts'
import { SUM_TTL_SECONDS, type Sum } from '../../kernel/store/sums.ts'
import { MAX_DAYS_LATE } from './store-flush.ts'

/** Time after the end of a day: clocks differ, and the last flush is written a moment later. */
const SETTLED_AFTER_MS = 3_600_000
const ROWS_AT_ONCE = 5_000
const DAYS_BACK = (SUM_TTL_SECONDS * 1_000) / DAY_MS
const ROWS_PER_TRIM = 10_000

/**
 * Sums that are not greater than their rows are filtered first, because a conflict without a change locks the row, too. Rows and
 * tenants are looked up one by one, because a join may be planned as a scan of all rows.
 */
const WRITE = `
  with leaving as materialized (
    select id from multitenancy.tenants where id = any($6) and status = 'deleted' and purged_at is null
    order by id for share
  ), counted as materialized (
    select tenant_id, key, incarnation, max(value) as value
    from unnest($2::text[], $3::text[], $4::uuid[], $5::bigint[]) as counted (tenant_id, key, incarnation, value)
    group by tenant_id, key, incarnation
  ), written as (
    insert into multitenancy.metric_sums as kept (day, tenant_id, key, incarnation, value)
    select $1::date, tenant_id, key, incarnation, value from counted
    where value > coalesce((
        select before.value from multitenancy.metric_sums as before
        where before.day = $1::date and before.tenant_id = counted.tenant_id and before.key = counted.key
          and before.incarnation = counted.incarnation), -1)
      and (tenant_id in (select id from leaving) or 'deleted' <> (
        select status from multitenancy.tenants where id = tenant_id))
    order by tenant_id collate "C", key collate "C", incarnation
    on conflict (day, tenant_id, key, incarnation) do update set value = excluded.value where kept.value < excluded.value
    returning true)
  select count(*) as written from written`

const TRIM = `
  with trimmed as (
    delete from multitenancy.metric_sums where ctid = any(array(
      select ctid from multitenancy.metric_sums where day < $1 order by day limit ${ROWS_PER_TRIM}
      for update skip locked))
    returning true)
  select count(*) as trimmed from trimmed`

export interface Flushed {
  /** Number of sums that were read. */
  readonly sums: number
  /** Number of rows that were inserted or increased. */
  readonly written: number
  /** Number of rows that were removed past their retention. */
  readonly trimmed: number
}

export class Rollup {
  readonly #kernel: Pick<Kernel, 'store' | 'database' | 'clock'>
  readonly #retentionDays: number | undefined
  /** Ended days whose sums this process has written. */
  readonly #settled = new Set<number>()

  constructor(kernel: Pick<Kernel, 'store' | 'database' | 'clock'>, retentionDays: number | undefined) {
    this.#kernel = kernel
    this.#retentionDays = retentionDays
  }

  /** @param onProgress receives the number of sums that were read so far */
  async run(signal?: AbortSignal, onProgress: (sums: number) => void = () => undefined): Promise<Flushed> {
    const today = dayOf(this.#kernel.clock.now().getTime())
    const settledBefore = dayOf(this.#kernel.clock.now().getTime() - SETTLED_AFTER_MS) - MAX_DAYS_LATE
    // Of a clock that was ahead.
    for (const day of this.#settled) if (day >= settledBefore) this.#settled.delete(day)
    let sums = 0
    let written = 0
    // The clock of another process may be ahead, already in the next day.
    for (let day = today - DAYS_BACK; day <= today + 1; day++) {
      if (this.#settled.has(day)) continue
      for await (const page of this.#kernel.store.sums.pages(dateOf(day))) {
        signal?.throwIfAborted()
        sums += page.length
        written += await this.#write(dateOf(day), page)
        onProgress(sums)
      }
      if (day < settledBefore) this.#settled.add(day)
    }
    for (const day of this.#settled) if (day < today - DAYS_BACK) this.#settled.delete(day)
    return { sums, written, trimmed: await this.#trim(today, signal) }
  }

  async #write(day: string, page: readonly Sum[]): Promise<number> {
    let written = 0
    for (let first = 0; first < page.length; first += ROWS_AT_ONCE) {
      const part = page.slice(first, first + ROWS_AT_ONCE)
      const { rows } = await this.#kernel.database.sql(WRITE, [
        day,
        part.map(({ tenantId }) => tenantId),
        part.map(({ name }) => name),
        part.map(({ incarnation }) => incarnation),
        part.map(({ sum }) => sum),
        [...new Set(part.map(({ tenantId }) => tenantId))],
      ])
      written += rows[0].written
    }
    return written
  }

  async #trim(today: number, signal: AbortSignal | undefined): Promise<number> {
    if (this.#retentionDays === undefined) return 0
    const first = dateOf(today - this.#retentionDays)
    let trimmed = 0
    for (;;) {
      signal?.throwIfAborted()
      const { rows } = await this.#kernel.database.sql(TRIM, [first])
      trimmed += rows[0].trimmed
      if (rows[0].trimmed < ROWS_PER_TRIM) return trimmed
    }
  }
}
