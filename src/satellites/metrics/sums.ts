/**
 * Sums of a key over days and tenants, computed in the database, as of the last flush.
 *
 * A sum over all tenants reads each row of its days. Rows of a past day rarely change (an entry of the outbox has waited, or retention has
 * removed them), so the sum of such a day is kept for an hour. Other results of many rows are kept for a minute. So such sums are read
 * outside of the transaction of a caller. No index has the values: each flush would have to write it.
 */
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { Database } from '../../kernel/database/database.ts'
import { DAY_MS, dateOf, dayOf } from '../../kernel/store/counters.ts'
import { type GuardedKey, MetricKey } from './key.ts'
import { type MetricFilter, rangeOf } from './readings.ts'
import { MAX_DAYS_LATE } from './store-flush.ts'

export const MAX_DAYS = 366
const DEFAULT_DAYS = 14
const DEFAULT_TENANTS = 10
const CACHED_SUMS = 5_000
/** After the last day to which a process adds, a rollup writes its sums within minutes. */
const SETTLED_DAYS = MAX_DAYS_LATE + 2
/** Rows, or tenants, from which a result is kept. */
const MANY = 10_000
const KEPT_MS = 60_000
const SETTLED_KEPT_MS = 3_600_000
const KEPT_RESULTS = 200

export const MetricSums = z
  .object({
    key: MetricKey,
    from: z.iso.date().meta({ description: 'First day' }),
    to: z.iso.date().meta({ description: 'Last day' }),
    total: z.number().min(0).meta({ description: 'Sum over all days and tenants of the query, rounded above 2^53' }),
    data: z
      .array(
        z.object({
          period: z.iso.date().optional().meta({ description: 'Of sums by day' }),
          tenantId: z.string().optional().meta({ description: 'Of sums by tenant' }),
          value: z.number().min(0),
        }),
      )
      .meta({
        description: 'By day: the newest first, without days that have no count. By tenant: the greatest first',
      }),
  })
  .meta({ id: 'MetricSums' })
export type MetricSums = z.output<typeof MetricSums>

export interface SumsRequest<Key extends string = string> extends Omit<MetricFilter, 'key'> {
  readonly key: Key | GuardedKey
  /** Default: `day`. */
  readonly by?: 'day' | 'tenant' | undefined
  readonly tenantId?: string | undefined
  /** Maximum number of tenants; default 10. */
  readonly top?: number | undefined
}

const conditionOf = (tenantId: string | undefined): string =>
  tenantId === undefined ? 'key = $1 and $2::text is null' : 'key = $1 and tenant_id = $2'

const byDay = (tenantId: string | undefined): string => `
  select day::text as period, sum(value)::float8 as value, count(*) as rows from multitenancy.metric_sums
  where ${conditionOf(tenantId)} and day = any($3::date[]) group by day`

const byTenant = (tenantId: string | undefined): string => `
  with sums as (
    select tenant_id as "tenantId", sum(value)::float8 as value from multitenancy.metric_sums
    where ${conditionOf(tenantId)} and day between $3 and $4 group by tenant_id)
  select "tenantId", value, sum(value) over ()::float8 as total, count(*) over () as tenants
  from sums order by value desc, "tenantId" limit $5`

interface TenantSumsRequest {
  readonly key: string
  readonly tenantId: string | undefined
  readonly first: string
  readonly last: string
  readonly top: number
}

interface TenantSum {
  readonly tenantId: string
  readonly value: number
  /** Of all tenants. */
  readonly total: number
  readonly tenants: number
}

export class SumsOfMetrics {
  readonly #database: Database
  /** By day and key, of all tenants. */
  readonly #daySums = new LRUCache<string, number>({ max: CACHED_SUMS })
  readonly #tenantSums = new LRUCache<string, Promise<readonly TenantSum[]>>({ max: KEPT_RESULTS, ttl: KEPT_MS })

  constructor(database: Database) {
    this.#database = database
  }

  async read(request: SumsRequest, now: Date): Promise<MetricSums> {
    const { key, by = 'day', tenantId, top = DEFAULT_TENANTS } = request
    const today = dayOf(now.getTime())
    const from =
      request.from ??
      new Date((dayOf(Math.min(now.getTime(), (request.to ?? now).getTime() - 1)) - DEFAULT_DAYS + 1) * DAY_MS)
    const to = request.to ?? new Date((today + 1) * DAY_MS)
    const range = rangeOf({ from, to })
    const period = range
      ? { from: range.first, to: range.last }
      : { from: dateOf(dayOf(from.getTime())), to: dateOf(dayOf(to.getTime())) }
    if (!range) return { key, ...period, total: 0, data: [] }
    if (by === 'tenant') {
      const rows = await this.#byTenant({ key, tenantId, ...range, top })
      return {
        key,
        ...period,
        total: rows[0]?.total ?? 0,
        data: rows.map(({ tenantId, value }) => ({ tenantId, value })),
      }
    }
    const data = await this.#byDay(key, tenantId, daysOf(range), today)
    return { key, ...period, total: data.reduce((sum, { value }) => sum + value, 0), data }
  }

  async #byTenant(request: TenantSumsRequest): Promise<readonly TenantSum[]> {
    const { key, tenantId, first, last, top } = request
    if (tenantId === undefined) return this.#ofAllTenants(request)
    return (await this.#database.sql(byTenant(tenantId), [key, tenantId, first, last, top])).rows
  }

  /** Concurrent requests share a query. It reads outside of their transactions, whose changes only they see. */
  #ofAllTenants({ key, first, last, top }: TenantSumsRequest): Promise<readonly TenantSum[]> {
    const values = [key, null, first, last, top]
    const name = JSON.stringify(values)
    const known = this.#tenantSums.get(name)
    if (known) return known
    const reading = this.#database
      .outside(() => this.#database.sql(byTenant(undefined), values))
      .then(
        ({ rows }) => {
          if ((rows[0]?.tenants ?? 0) < MANY) this.#tenantSums.delete(name)
          return rows
        },
        (error) => {
          this.#tenantSums.delete(name)
          throw error
        },
      )
    this.#tenantSums.set(name, reading)
    return reading
  }

  async #byDay(key: string, tenantId: string | undefined, days: readonly string[], today: number) {
    const isCached = tenantId === undefined
    const known = new Map(
      days.flatMap((day): [string, number][] => {
        const sum = isCached ? this.#daySums.get(`${day} ${key}`) : undefined
        return sum === undefined ? [] : [[day, sum]]
      }),
    )
    const unknown = days.filter((day) => !known.has(day))
    const query = () => this.#database.sql(byDay(tenantId), [key, tenantId ?? null, unknown])
    const { rows } = unknown.length === 0 ? { rows: [] } : await (isCached ? this.#database.outside(query) : query())
    const read = new Map<string, { value: number; rows: number }>(rows.map((row) => [row.period, row]))
    const settledBefore = dateOf(today - SETTLED_DAYS)
    return days.flatMap((period) => {
      const { value, rows } = read.get(period) ?? { value: known.get(period) ?? 0, rows: 0 }
      if (isCached && !known.has(period)) {
        if (period < settledBefore) this.#daySums.set(`${period} ${key}`, value, { ttl: SETTLED_KEPT_MS })
        else if (rows >= MANY) this.#daySums.set(`${period} ${key}`, value, { ttl: KEPT_MS })
      }
      return value > 0 ? [{ period, value }] : []
    })
  }
}

/** The newest first. */
const daysOf = ({ first, last }: { first: string; last: string }): string[] => {
  const end = dayOf(Date.parse(last))
  const count = end - dayOf(Date.parse(first)) + 1
  return Array.from({ length: count }, (_, back) => dateOf(end - back))
}
