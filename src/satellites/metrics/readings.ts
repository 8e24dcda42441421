/**
 * Reads metrics, the newest day first. A read of one tenant includes sums that are only in the store. A read of all tenants uses
 * rows only, because it would have to read the whole store.
 */

import type { Database } from '../../kernel/database/database.ts'
import { DAY_MS, dateOf, dayOf } from '../../kernel/store/counters.ts'
import { MAX_SUM, type SumOfDay } from '../../kernel/store/sums.ts'
import type { GuardedKey } from './key.ts'
import type { Metric, MetricOfTenant } from './metric.ts'

export interface MetricFilter<Key extends string = string> {
  readonly key?: Key | GuardedKey | undefined
  /** Days from the one that contains this time. */
  readonly from?: Date | undefined
  /** Exclusive: days that have started before. */
  readonly to?: Date | undefined
}

/** Dates, both inclusive. */
export interface Range {
  readonly first: string
  readonly last: string
}

const FIRST_DAY = '0001-01-01'
const LAST_DAY = '9999-12-31'
/** PostgreSQL has years that are no dates here. */
const LAST_MS = Date.parse(`${LAST_DAY}T23:59:59.999Z`)

/** The days of a range; undefined if it is empty. */
export function rangeOf({ from, to }: MetricFilter): Range | undefined {
  if (from && to && from >= to) return undefined
  const first = from ? dateWithin(from.getTime()) : FIRST_DAY
  const last = to ? dateWithin(to.getTime() - 1) : LAST_DAY
  return { first, last }
}

const dateWithin = (ms: number): string =>
  dateOf(dayOf(Math.min(Math.max(ms, Date.parse(FIRST_DAY)), LAST_MS - (LAST_MS % DAY_MS))))

const OF_TENANT = `
  with counted as (
    select day, key, incarnation, value from multitenancy.metric_sums
    where tenant_id = $1 and day between $2 and $3 and ($4::text is null or key = $4)
    union all
    select * from unnest($5::date[], $6::text[], $7::uuid[], $8::bigint[])
  ), latest as (
    select day, key, max(value) as value from counted group by day, key, incarnation
  )
  select day::text as period, key, least(sum(value), ${MAX_SUM})::bigint as value from latest
  where ($9::date is null or (day, key collate "C") < ($9, $10))
  group by day, key order by day desc, key collate "C" desc limit $11`

const OF_ALL = `
  select tenant_id as "tenantId", day::text as period, key, least(sum(value), ${MAX_SUM})::bigint as value
  from multitenancy.metric_sums
  where day between $1 and $2 and ($3::text is null or key = $3) and ($4::text is null or tenant_id = $4)
    and ($5::date is null or (day, tenant_id, key) < ($5, $6, $7))
  group by day, tenant_id, key order by day desc, tenant_id desc, key desc limit $8`

/** @param after last item of the previous page @param kept the store's sums of the tenant */
export async function metricsOf(
  database: Database,
  tenantId: string,
  { key, ...filter }: MetricFilter,
  { limit, after, kept }: { limit: number; after?: Partial<Metric> | undefined; kept: readonly SumOfDay[] },
): Promise<Metric[]> {
  const range = rangeOf(filter)
  if (!range) return []
  const { first } = range
  const last = after?.period && after.period < range.last ? after.period : range.last
  const among = kept.filter(({ day, name }) => day >= first && day <= last && (key === undefined || name === key))
  const { rows } = await database.sql(OF_TENANT, [
    tenantId,
    first,
    last,
    key ?? null,
    among.map(({ day }) => day),
    among.map(({ name }) => name),
    among.map(({ incarnation }) => incarnation),
    among.map(({ sum }) => sum),
    after?.period ?? null,
    after?.key ?? null,
    limit,
  ])
  return rows
}

export async function metricsOfAll(
  database: Database,
  { key, tenantId, ...filter }: MetricFilter & { readonly tenantId?: string | undefined },
  { limit, after }: { limit: number; after?: Partial<MetricOfTenant> | undefined },
): Promise<MetricOfTenant[]> {
  const range = rangeOf(filter)
  if (!range) return []
  const last = after?.period && after.period < range.last ? after.period : range.last
  const { rows } = await database.sql(OF_ALL, [
    range.first,
    last,
    key ?? null,
    tenantId ?? null,
    after?.period ?? null,
    after?.tenantId ?? null,
    after?.key ?? null,
    limit,
  ])
  return rows
}
