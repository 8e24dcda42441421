/**
 * Stored events without a delivery to a subscription whose patterns they match: dispatched before it existed, while it was disabled, or
 * before it had these patterns. Tests of subscriptions and streams are for one subscription, and are never missing.
 *
 * Each statement examines a limited number of messages in the order of their ids, so that a subscription of the host, whose events are
 * those of all tenants, needs no scan of all of them.
 *
 * $1: id of the subscription; $2: its tenant, or null for the host; $3 and $4: exclusive bounds of the ids of messages; $5: maximum of
 * examined messages.
 */

/** The id of a delivery starts with the first fifteen digits of its message. */
const missing = (owner: string | null): string => `
  examined as materialized (
    select m.id, m.tenant_id, m.event, m.created_at from multitenancy.webhook_messages m
    where ${owner === null ? '$2::text is null and m.audience is not null' : `m.tenant_id = $2::text and m.audience = 'all'`}
      and m.id > $3::uuid and m.id < $4::uuid
    order by m.id limit $5
  ), missing as (
    select m.*, s.id as webhook_id, coalesce(s.tenant_id, '-') as partition_key
    from multitenancy.webhook_subscriptions s, examined m
    where s.id = $1
      and exists (select from unnest(s.events) pattern
        where pattern in ('*', m.event) or (right(pattern, 2) = '.*' and starts_with(m.event, left(pattern, -1))))
      and not exists (
        select from multitenancy.webhook_deliveries d where d.webhook_id = s.id and d.message_id = m.id
          and d.id >= (left(m.id::text, 15) || '000-0000-000000000000')::uuid
          and d.id <= (left(m.id::text, 15) || 'fff-ffff-ffffffffffff')::uuid)
  )`

/** Returns the number of examined messages, the number of missing deliveries, and the last examined id. */
const step = (counted: string): string => `
  select (select count(*) from examined) as examined, (select max(id::text) from examined) as last,
    (select count(*) from ${counted}) as count`

export const COUNT_MISSING = (owner: string | null): string => `with ${missing(owner)} ${step('missing')}`

/** $6: `shiftMs`. Call it with the subscription locked. */
export const CREATE_MISSING = (owner: string | null): string => `
  with ${missing(owner)}, made as (
    insert into multitenancy.webhook_deliveries
      (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, due_at, created_at)
    select overlay(gen_random_uuid()::text placing left(id::text, 15) from 1 for 15)::uuid, id, webhook_id, tenant_id, partition_key,
      event, 'pending', true, clock_timestamp() + $6::float8 * interval '1 millisecond', created_at
    from missing returning message_id)
  ${step('made')}`
