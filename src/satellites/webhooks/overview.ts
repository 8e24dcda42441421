/** Webhooks in lists over all parts: failing receivers as attention, and failed deliveries in the timeline of a tenant. */
import type { Kernel } from '../../kernel/kernel.ts'
import {
  type AttentionRequest,
  type AttentionResult,
  attentionOf,
  type Contributions,
  type OperationCall,
  type TimelineEntry,
  type TimelineRequest,
} from '../../kernel/shares/contributions.ts'
import type { Webhooks } from './webhooks.ts'

const HOUR_MS = 3_600_000
/** Failed deliveries of an hour that are counted. */
const MAX_COUNTED = 1_000

/** Subscriptions with only failures for an hour, and those that were disabled for their failures; of tenants, and of the host. */
const FAILING = `
  select * from (
    select s.tenant_id as "tenantId", s.id, s.enabled, since, count(*) over owner as total,
      row_number() over (owner order by since, s.id) as position
    from multitenancy.webhook_subscriptions s, coalesce(s.failing_since, s.updated_at) since
    where s.deleted_at is null and s.listening_until is null
      and (s.failing_since is not null or s.disabled_reason is not null)
      and case when s.enabled then s.failing_since < $3 else s.disabled_reason is not null end
      and ($1::text is null or s.tenant_id = $1)
    window owner as (partition by s.tenant_id is null)) failing
  where position <= $2 order by since, id`

/** By tenant of the event, as deliveries are counted. */
const FAILED = `
  select tenant_id as "tenantId", sum(failed) as count, min(since) as since, count(*) over () as total
  from multitenancy.webhook_counters
  where failed > 0 and since > $3 and tenant_id is not null and ($1::text is null or tenant_id = $1)
  group by tenant_id order by sum(failed) desc, tenant_id limit $2`

/** Hour of the id, which has the time of the delivery. */
const HOUR = `date_trunc('hour', to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0), 'UTC')`

/** The newest failed delivery to the tenant's own subscriptions before a time. */
const newestBefore = (time: string): string => `
  select ${HOUR} as hour from (
    select newest.id from own, lateral (
      select d.id from multitenancy.webhook_deliveries d where d.webhook_id = own.id and d.state = 'failed'
        and d.id < multitenancy.webhook_id_floor(${time}) order by d.id desc limit 1) newest
    order by 1 desc limit 1) delivery`

/** Hours with failed deliveries, from hour to hour by the index of failed deliveries. */
const HOURS = `
  with recursive own as materialized (
    select id from multitenancy.webhook_subscriptions where tenant_id = $1
  ), hours as (
    (${newestBefore('$2::timestamptz')})
    union all
    select (${newestBefore('hours.hour')}) from hours where hours.hour is not null
  ), shown as (
    select hour from hours where hour is not null and ($3::timestamptz is null or hour >= $3) limit $4
  )
  select hour as at, (select count(*) from (
    select from own, lateral (
      select from multitenancy.webhook_deliveries d where d.webhook_id = own.id and d.state = 'failed'
        and d.id >= multitenancy.webhook_id_floor(hour) and d.id < multitenancy.webhook_id_floor(hour + interval '1 hour')
      limit ${MAX_COUNTED}) failed limit ${MAX_COUNTED}) counted) as count
  from shown order by hour desc`

export const contributions: Contributions<Webhooks> = {
  attention: [
    { name: 'webhookFailing', severity: 'high', read: failing },
    { name: 'deliveriesFailed', severity: 'high', read: failed },
    { name: 'webhookQueue', severity: 'high', read: overdue },
  ],
  timeline: [{ name: 'deliveries', operation: 'webhooks.list', read: failedByHour }],
}

/** The subscriptions of the owner. */
const listOf = (tenantId: string | null): OperationCall =>
  tenantId === null
    ? { operation: 'hostWebhooks.list', params: {} }
    : { operation: 'webhooks.list', params: { id: tenantId } }

const subscriptionOf = (tenantId: string | null, webhookId: string): OperationCall =>
  tenantId === null
    ? { operation: 'hostWebhooks.get', params: { webhookId } }
    : { operation: 'webhooks.get', params: { id: tenantId, webhookId } }

const databaseOf = ({ inspection }: Webhooks): Kernel['database'] => inspection.database

async function failing(webhooks: Webhooks, { tenantId, limit, now }: AttentionRequest): Promise<AttentionResult> {
  const hourAgo = new Date(now.getTime() - HOUR_MS)
  const { rows } = await databaseOf(webhooks).sql(FAILING, [tenantId ?? null, limit, hourAgo])
  return attentionOf(rows, ({ tenantId, id, enabled, since }) => ({
    tenantId,
    title: enabled ? 'Subscription failing' : 'Subscription disabled because its deliveries failed',
    since,
    count: 1,
    ...subscriptionOf(tenantId, id),
  }))
}

async function failed(webhooks: Webhooks, { tenantId, limit, now }: AttentionRequest): Promise<AttentionResult> {
  const dayAgo = new Date(now.getTime() - 24 * HOUR_MS)
  const { rows } = await databaseOf(webhooks).sql(FAILED, [tenantId ?? null, limit, dayAgo])
  return attentionOf(rows, ({ tenantId, count, since }) => ({
    tenantId,
    title: 'Deliveries failed in 24 hours',
    since,
    count: Number(count),
    ...listOf(tenantId),
  }))
}

async function overdue(webhooks: Webhooks, { tenantId, limit }: AttentionRequest): Promise<AttentionResult> {
  const { overdue } = await webhooks.inspection.overdue()
  const own = overdue.filter((one) => tenantId === undefined || one.tenantId === tenantId)
  const byOperation = Map.groupBy(own, ({ tenantId }) => listOf(tenantId).operation)
  const rows = [...byOperation.values()].flatMap((some) =>
    some.slice(0, limit).map((one) => ({ ...one, total: some.length })),
  )
  return attentionOf(rows, ({ tenantId, count, since }) => ({
    tenantId,
    title: 'Deliveries overdue for more than 5 minutes',
    since,
    count,
    ...listOf(tenantId),
  }))
}

/** An hour is complete or not at all: the part of it before the cursor is that of the page before. */
async function failedByHour(
  webhooks: Webhooks,
  { tenantId, before, from, limit }: TimelineRequest,
): Promise<TimelineEntry[]> {
  const { rows } = await databaseOf(webhooks).sql(HOURS, [tenantId, endOf(before), from ?? null, limit])
  return rows.map(({ at, count }) => ({
    at,
    id: at.toISOString(),
    actor: null,
    title: `Deliveries failed: ${count < MAX_COUNTED ? count : `${MAX_COUNTED} or more`}`,
    ...listOf(tenantId),
  }))
}

/** End of the last hour that starts before the sort key. */
function endOf({ at, id }: TimelineRequest['before']): Date {
  const hour = new Date(Math.floor(at.getTime() / HOUR_MS) * HOUR_MS)
  const isShown = hour.getTime() === at.getTime() && hour.toISOString() >= id
  return isShown ? hour : new Date(hour.getTime() + HOUR_MS)
}
