/** Ranks tenants by the share of a limit that they have used, from the rows of usage (usage-records.ts). */
import { z } from 'zod'
import type { PageOf, PageOptions, RowReader } from '../../kernel/api/page.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { dateOf, dayOf } from '../../kernel/store/counters.ts'
import type { Plans } from '../../tenants/registry/plans.ts'

export const DEFAULT_SHARE = 0.8

export const QuotaUse = z
  .object({
    tenantId: z.string(),
    name: z.string().meta({ description: 'Name of the tenant' }),
    plan: z.string(),
    quota: z.string(),
    usage: z.number().meta({ description: 'At the last recorded change' }),
    limit: z.number().meta({ description: 'Limit of the plan' }),
    share: z.number().meta({ description: '`usage` divided by `limit`; above 1 without enforcement', example: 0.93 }),
    notedAt: z.iso.datetime().meta({ description: 'Time of the recorded usage' }),
  })
  .meta({ id: 'QuotaUse' })
export type QuotaUse = z.output<typeof QuotaUse>

export interface RankingFilter<Quota extends string = string> {
  readonly quota?: Quota | undefined
  /** Smallest share; default 0.8. */
  readonly above?: number | undefined
}

type Row = Omit<QuotaUse, 'notedAt'> & { readonly notedAt: Date }

const TOP = `
  select * from (
    select u.tenant_id as "tenantId", t.name, l.plan, u.quota, u.used as usage, l.max as "limit", u.used / l.max as share,
      u.noted_at as "notedAt"
    from multitenancy.quota_usage u
    join multitenancy.tenants t on t.id = u.tenant_id and t.status <> 'deleted'
    join unnest($1::text[], $2::text[], $3::float8[]) l (plan, quota, max) on l.quota = u.quota and l.plan = case
      when $4 then u.plan
      when t.metadata ->> 'plan' = any($5::text[]) then t.metadata ->> 'plan'
      else $6 end
    where (u.day is null or u.day = $7) and ($8::text is null or u.quota = $8)) ranked
  where share >= $9 and ($10::float8 is null or (share, "tenantId" collate "C", quota) < ($10, $11, $12))
  order by share desc, "tenantId" collate "C" desc, quota desc limit $13`

export async function rankingOf(
  { database, cursors, clock }: Pick<Kernel, 'database' | 'cursors' | 'clock'>,
  plans: Pick<Plans, 'describe'>,
  { quota, above = DEFAULT_SHARE, ...page }: RankingFilter & PageOptions,
): Promise<PageOf<QuotaUse>> {
  const { defaultPlan, definitions, resolvedBy } = plans.describe()
  const limits = Object.entries(definitions).flatMap(([plan, { limits }]) =>
    Object.entries(limits).flatMap(([name, max]) => (max > 0 ? [{ plan, name, max }] : [])),
  )
  const today = dateOf(dayOf(clock.now().getTime()))
  const read: RowReader<Row, 'share' | 'tenantId' | 'quota'> = async (after, limit) => {
    const { rows } = await database.sql(TOP, [
      limits.map(({ plan }) => plan),
      limits.map(({ name }) => name),
      limits.map(({ max }) => max),
      resolvedBy === 'host',
      Object.keys(definitions),
      defaultPlan,
      today,
      quota ?? null,
      above,
      after.share ?? null,
      after.tenantId ?? null,
      after.quota ?? null,
      limit,
    ])
    return rows
  }
  const order = { columns: ['share', 'tenantId', 'quota'], direction: 'desc' } as const
  const item = (row: Row): QuotaUse => ({ ...row, notedAt: row.notedAt.toISOString() })
  return cursors.keysetPage(read, { name: 'quotas.top', filters: [quota, above], order, item }, page)
}
