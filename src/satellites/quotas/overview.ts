/** Quotas in lists over all parts: exceeded limits as attention, in the timeline, and as a check of access. */
import {
  type AccessRequest,
  type AccessResult,
  type AttentionRequest,
  type AttentionResult,
  type AttentionSource,
  attentionOf,
  type Contributions,
  type TimelineEntry,
  type TimelineRequest,
} from '../../kernel/shares/contributions.ts'
import { dateOf, dayOf } from '../../kernel/store/counters.ts'
import { QuotaExceeded } from './errors.ts'
import type { Quotas } from './quotas.ts'

const EXCEEDED = 'exceeded'
const THRESHOLD = '80'

/** A quota that is exceeded has no second entry for its threshold. */
const TODAY = `
  select tenant_id as "tenantId", quota, min(raised_at) as since, count(*) over () as total
  from multitenancy.quota_alerts alert
  where day = $1 and kind = any ($2) and ($3::text is null or tenant_id = $3) and not exists (
    select from multitenancy.quota_alerts worse where worse.day = $1 and worse.tenant_id = alert.tenant_id
      and worse.quota = alert.quota and worse.kind = any ($4))
  group by tenant_id, quota order by since, 1, 2 limit $5`

const OF_TENANT = `
  select raised_at as at, concat(day, ' ', quota, ' ', kind) as id, quota, kind from multitenancy.quota_alerts
  where tenant_id = $1 and raised_at is not null and ($4::timestamptz is null or raised_at >= $4)
    and (raised_at, concat(day, ' ', quota, ' ', kind) collate "C") < ($2, $3)
  order by raised_at desc, concat(day, ' ', quota, ' ', kind) collate "C" desc limit $5`

export const contributions: Contributions<Quotas> = {
  attention: [
    { name: 'quotaExceeded', severity: 'high', read: alerts([EXCEEDED, '100'], [], 'Quota exceeded') },
    {
      name: 'quotaThreshold',
      severity: 'notice',
      read: alerts([THRESHOLD], [EXCEEDED, '100'], 'Quota reached 80 %'),
    },
  ],
  accessChecks: [{ name: 'quotas', read: exhausted }],
  timeline: [{ name: 'quota', operation: 'quotas.get', read: timeline }],
}

function alerts(kinds: readonly string[], worse: readonly string[], title: string): AttentionSource<Quotas>['read'] {
  return async (
    { alerts: { database } }: Quotas,
    { tenantId, limit, now }: AttentionRequest,
  ): Promise<AttentionResult> => {
    const today = dateOf(dayOf(now.getTime()))
    const { rows } = await database.sql(TODAY, [today, kinds, tenantId ?? null, worse, limit])
    return attentionOf(rows, ({ tenantId, quota, since }) => ({
      tenantId,
      title: `${title}: ${quota}`,
      since,
      count: 1,
      operation: 'quotas.get',
      params: { id: tenantId },
    }))
  }
}

/** Quotas that reject the next amount. */
async function exhausted(quotas: Quotas, { tenantId }: AccessRequest): Promise<AccessResult> {
  const { limits, usage } = await quotas.snapshot(tenantId)
  const used = Object.entries(limits).filter(([quota, limit]) => (usage[quota] ?? 0) >= limit)
  if (used.length === 0) return { passed: true, message: 'No quota rejects requests.' }
  const [[first] = ['']] = used
  return {
    passed: false,
    message: `Used up: ${used.map(([quota, limit]) => `${quota} (${usage[quota] ?? 0} of ${limit})`).join(', ')}.`,
    code: QuotaExceeded.code,
    remedy: {
      operation: 'quotas.reset',
      params: used.length === 1 ? { id: tenantId, quota: first } : { id: tenantId },
    },
  }
}

async function timeline(
  { alerts: { database } }: Quotas,
  { tenantId, before, from, limit }: TimelineRequest,
): Promise<TimelineEntry[]> {
  const { rows } = await database.sql(OF_TENANT, [tenantId, before.at, before.id, from ?? null, limit])
  return rows.map(({ at, id, quota, kind }) => ({
    at,
    id,
    actor: null,
    title: kind === EXCEEDED ? `Quota rejected: ${quota}` : `Quota reached ${kind} %: ${quota}`,
    operation: 'quotas.get',
    params: { id: tenantId },
  }))
}
