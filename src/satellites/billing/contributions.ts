/** Billing in lists over all parts: unpaid periods and unreported usage as attention, in the timeline, and as a check of access. */
import {
  type AccessRequest,
  type AccessResult,
  type AttentionRequest,
  type AttentionResult,
  type AttentionSource,
  attentionOf,
  type Contributions,
  NO_ATTENTION,
  type TimelineEntry,
  type TimelineRequest,
} from '../../kernel/shares/contributions.ts'
import { TenantIsSuspended } from '../../tenants/tenant/errors.ts'
import type { Billing } from './billing.ts'

const DAY_MS = 86_400_000
const LATE_MS = 15 * 60_000

const DUNNING = `
  select tenant_id as "tenantId", opened_at as since, grace_until as until, count(*) over () as total
  from multitenancy.billing_dunning
  where closed_at is null and state = $3 and ($1::text is null or tenant_id = $1)
  order by opened_at, subscription_id limit $2`

const USAGE = `
  select tenant_id as "tenantId", count(*) as count, min(used_at) as since, count(*) over () as total
  from multitenancy.billing_usage
  where sent_at is null and used_at < $3 and ($1::text is null or tenant_id = $1)
  group by tenant_id order by min(used_at), tenant_id limit $2`

const EVENTS = `
  select at, id, event from multitenancy.billing_dunning, lateral (values
      (opened_at, 'opened'), (suspended_at, 'suspended'), (closed_at, case when closed_at is not null then state end)
    ) happened (at, event),
    lateral (select concat(subscription_id, ' ', extract(epoch from period_end)::bigint, ' ', event) collate "C" as id) named
  where tenant_id = $1 and at is not null and (at, id) < ($2, $3) and ($4::timestamptz is null or at >= $4)
  order by at desc, id desc limit $5`

export const contributions: Contributions<Billing> = {
  attention: [
    { name: 'paymentRetrying', severity: 'high', read: dunning('retrying', () => 'Payment is retried') },
    {
      name: 'paymentGrace',
      severity: 'high',
      read: dunning('grace', (until) => `Payment failed, in grace until ${until?.toISOString() ?? 'further notice'}`),
    },
    { name: 'providerSilent', severity: 'high', read: silence },
    { name: 'usageUnreported', severity: 'high', read: unreported },
  ],
  accessChecks: [{ name: 'dunning', read: unpaid }],
  timeline: [{ name: 'dunning', operation: 'billing.get', read: timeline }],
}

const billingOf = (tenantId: string) => ({ operation: 'billing.get', params: { id: tenantId } })

function dunning(state: 'retrying' | 'grace', title: (until: Date | null) => string): AttentionSource<Billing>['read'] {
  return async ({ dependencies }: Billing, { tenantId, limit }: AttentionRequest): Promise<AttentionResult> => {
    const { rows } = await dependencies.kernel.database.sql(DUNNING, [tenantId ?? null, limit, state])
    return attentionOf(rows, ({ tenantId, since, until }) => {
      return { tenantId, title: title(until), since, count: 1, ...billingOf(tenantId) }
    })
  }
}

async function silence({ health }: Billing, { tenantId, now }: AttentionRequest): Promise<AttentionResult> {
  const since = tenantId === undefined ? await health.lastEventAt() : null
  if (since === null || now.getTime() - since.getTime() < DAY_MS) return NO_ATTENTION
  const title = 'No event of the payment provider for a day, while subscriptions are active'
  return { entries: [{ tenantId: null, title, since, count: 1, operation: 'doctor.get', params: {} }], total: 1 }
}

async function unreported(
  { dependencies }: Billing,
  { tenantId, limit, now }: AttentionRequest,
): Promise<AttentionResult> {
  const late = new Date(now.getTime() - LATE_MS)
  const { rows } = await dependencies.kernel.database.sql(USAGE, [tenantId ?? null, limit, late])
  return attentionOf(rows, ({ tenantId, count, since }) => {
    return { tenantId, title: 'Usage is not reported to the payment provider', since, count, ...billingOf(tenantId) }
  })
}

/** Retries and a grace period leave the access as it is. */
async function unpaid({ dunning }: Billing, { tenantId }: AccessRequest): Promise<AccessResult> {
  const [latest] = await dunning.open(tenantId)
  if (!latest) return { passed: true, message: 'No payment of the tenant has failed.' }
  const { state, openedAt, suspendedAt, graceUntil } = latest
  if (state === 'retrying' || state === 'grace') {
    const until = graceUntil ? ` until ${graceUntil.toISOString()}` : ''
    return { passed: true, message: `A payment has failed: ${state}${until}. The access stays meanwhile.` }
  }
  const isSuspended = state === 'suspended'
  return {
    passed: false,
    message: isSuspended ? 'Dunning has suspended the tenant.' : 'Dunning has changed the plan of the tenant.',
    code: isSuspended ? TenantIsSuspended.code : null,
    since: suspendedAt ?? openedAt,
    remedy: { operation: 'billing.portal', params: { id: tenantId } },
    actions: isSuspended ? ['tenants.suspend'] : ['tenants.setPlan', 'tenants.update'],
  }
}

async function timeline(
  { dependencies }: Billing,
  { tenantId, before, from, limit }: TimelineRequest,
): Promise<TimelineEntry[]> {
  const values = [tenantId, before.at, before.id, from ?? null, limit]
  const { rows } = await dependencies.kernel.database.sql(EVENTS, values)
  return rows.map(({ at, id, event }) => {
    return { at, id, actor: null, title: `Dunning ${event}`, ...billingOf(tenantId) }
  })
}
