/**
 * Sums of a key over days and tenants, computed in the database, as of the last flush.
 *
 * A sum over all tenants reads each row of its day. Rows of a day stay the same when no process adds to it any more, so the sum of such
 * a day is read once per process; a later trim by retention is not seen.
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

const BY_DAY = `
  select d.day::text as period, s.value from unnest($3::date[]) d (day), lateral (
    select sum(value)::float8 as value from multitenancy.metric_sums
    where day = d.day and key = $1 and ($2::text is null or tenant_id = $2)) s
  where s.value is not null order by d.day desc`

const BY_TENANT = `
  with sums as (
    select tenant_id as "tenantId", sum(value)::float8 as value from multitenancy.metric_sums
    where key = $1 and ($2::text is null or tenant_id = $2) and day between $3 and $4 group by tenant_id)
  select "tenantId", value, sum(value) over ()::float8 as total from sums order by value desc, "tenantId" limit $5`

export class SumsOfMetrics {
  readonly #database: Database
  /** By day and key, of all tenants. */
  readonly #settled = new LRUCache<string, number>({ max: CACHED_SUMS })

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
      const { rows } = await this.#database.sql(BY_TENANT, [key, tenantId ?? null, range.first, range.last, top])
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

  async #byDay(key: string, tenantId: string | undefined, days: readonly string[], today: number) {
    const isCached = tenantId === undefined
    const settledBefore = dateOf(today - SETTLED_DAYS)
    const unknown = days.filter((day) => !isCached || !this.#settled.has(`${day} ${key}`))
    const { rows } =
      unknown.length === 0 ? { rows: [] } : await this.#database.sql(BY_DAY, [key, tenantId ?? null, unknown])
    const read = new Map<string, number>(rows.map(({ period, value }) => [period, value]))
    if (isCached) {
      for (const day of unknown) if (day < settledBefore) this.#settled.set(`${day} ${key}`, read.get(day) ?? 0)
    }
    return days.flatMap((period) => {
      const value = read.get(period) ?? (isCached ? this.#settled.get(`${period} ${key}`) : undefined) ?? 0
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
