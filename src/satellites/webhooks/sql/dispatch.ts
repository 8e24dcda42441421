/**
 * The function that dispatches messages: it writes a delivery for each matching subscription, in one statement.
 *
 * - A worker with room claims new deliveries in the same statement, within the bounds of claim.ts. It does so only if no other claim is
 *   running, and only for subscriptions without waiting deliveries, failures or slow receivers.
 * - Workers are notified if a subscription without waiting deliveries has one now. `needs_wakeup` makes the dispatching worker look
 *   itself: it could not see whether another claim was running. In a transaction every dispatch notifies.
 */
import { CHANNEL, CLAIM_LOCK, PLANS } from './settings.ts'

/** Additions of later migrations. The text of a released migration must not change. */
interface Version {
  readonly hasTraces: boolean
  readonly hasEnvelopes: boolean
  readonly hasAudiences: boolean
}

/** Subscriptions for which a message may be sent later: null for a test or a stream, which are for one subscription. */
const AUDIENCE = `case when only_for is null then case when kind = 'system' and status = 'deleted' then 'host' else 'all' end end`

/** Messages that match only disabled subscriptions. */
const kept = `, kept as (
    select * from requested a where only_for is null and not exists (select from matched m where m.place = a.place) and exists (
      select from webhook_subscriptions s
      where s.tenant_id = a.tenant_id and (a.status <> 'deleted' or a.kind = 'deletion') and a.purged_at is null
        and not s.enabled and s.deleted_at is null and s.events && string_to_array(a.patterns, ' ')
      union all
      select from webhook_subscriptions s where s.tenant_id is null and not s.enabled and s.deleted_at is null
        and (a.tenant_id is not null or a.kind = 'system')
        and (a.tenant_id is null or a.status <> 'deleted' or a.kind <> 'request') and s.events && string_to_array(a.patterns, ' '))
  )`
const messagesKept = `)
    union all
    select message_id, tenant_id, event, body, to_timestamp(created / 1000), traceparents[place], ${AUDIENCE}, true from kept`

const dispatchFunction = ({ hasTraces, hasEnvelopes, hasAudiences }: Version): string => `
create ${hasAudiences ? 'or replace ' : ''}function dispatch_webhooks(
  shift_ms double precision, message_ids uuid[], tenants text[], events text[], patterns text[], bodies text[],
  created double precision[], kinds text[], only_for uuid[],
  claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int, slow_webhooks uuid[] default '{}'${hasTraces ? ", traceparents text[] default '{}'" : ''})
returns table (
  place bigint, rejected text, id uuid, is_claimed boolean, needs_wakeup boolean, webhook_id uuid, partition_key text,
  url text, secret text, previous_secret text, previous_until timestamptz, generation int${hasEnvelopes ? ', envelope boolean' : ''})
language plpgsql ${PLANS} as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp() + shift_ms * interval '1 millisecond';
  -- A claim that runs now takes the deliveries that are left ready.
  holds_claim_lock boolean := wanted > 0 and pg_try_advisory_xact_lock(${CLAIM_LOCK});
  busy jsonb := case when holds_claim_lock then webhook_deliveries_in_flight(now_at) else '{}' end;
begin
  return query
  with requested as (
    select a.*, t.status, t.purged_at
    from unnest(message_ids, tenants, events, patterns, bodies, created, kinds, only_for) with ordinality
      as a(message_id, tenant_id, event, patterns, body, created, kind, only_for, place)
    left join tenants t on t.id = a.tenant_id
  ), matched as (
    select a.place, a.message_id, a.tenant_id, a.event, a.body, to_timestamp(a.created / 1000) as created_at,
      coalesce(s.tenant_id, '-') as partition_key,
      overlay(gen_random_uuid()::text placing left(a.message_id::text, 15) from 1 for 15)::uuid as id,
      s.id as webhook_id, s.url, s.secret, s.previous_secret, s.previous_until, s.generation,${hasEnvelopes ? ' s.envelope,' : ''}${hasAudiences ? ' a.kind, a.status, a.only_for,' : ''}
      s.listening_until is null and s.failing_since is null and s.id <> all(slow_webhooks) as is_sound, row_number() over () as nth
    from requested a cross join lateral (
      select * from webhook_subscriptions
      where tenant_id = a.tenant_id and (a.status <> 'deleted' or a.kind = 'deletion') and a.purged_at is null
        and enabled and deleted_at is null and (listening_until is null or listening_until > now_at)
      union all
      select * from webhook_subscriptions where tenant_id is null and enabled and deleted_at is null
        and (a.tenant_id is not null or a.kind = 'system' or a.only_for is not null)
        and (a.tenant_id is null or a.status <> 'deleted' or a.kind <> 'request')
    ) s
    where s.id = a.only_for or (a.only_for is null and s.events && string_to_array(a.patterns, ' '))
  ), counted as (
    select m.*, row_number() over of_webhook as nth_of_webhook,
      row_number() over (partition by partition_key order by webhook_id, nth) as nth_of_partition
    from matched m window of_webhook as (partition by partition_key, webhook_id order by nth)
  ), looked_up as (
    select c.*, bool_or(case when nth_of_webhook = 1 then exists (
        select from webhook_deliveries d where d.is_ready and d.partition_key = c.partition_key and d.webhook_id = c.webhook_id)
      end) over (partition by partition_key, webhook_id) is true as has_waiting
    from counted c
  ), judged as (
    select *, holds_claim_lock and is_sound and not has_waiting and nth <= wanted
      and nth_of_partition <= per_tenant - coalesce((busy ->> ('partition ' || partition_key))::int, 0)
      and nth_of_webhook <= per_webhook - coalesce((busy ->> ('webhook ' || webhook_id))::int, 0) as is_claimed
    from looked_up
  )${hasAudiences ? kept : ''}, message as (
    insert into webhook_messages (id, tenant_id, event, body, created_at${hasTraces ? ', traceparent' : ''}${hasAudiences ? ', audience, is_undelivered' : ''})
    ${hasAudiences ? '(' : ''}select distinct on (message_id) message_id, tenant_id, event, body, created_at${hasTraces ? ', traceparents[place]' : ''}${hasAudiences ? `, ${AUDIENCE}, false` : ''} from matched${hasAudiences ? messagesKept : ''}
  ), delivery as (
    insert into webhook_deliveries
      (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, due_at, claim, created_at)
    select id, message_id, webhook_id, tenant_id, partition_key, event, case when is_claimed then 'delivering' else 'pending' end,
      not is_claimed, case when is_claimed then now_at + lease_ms * interval '1 millisecond' else now_at end,
      case when is_claimed then claim_id end, created_at
    from judged
  ), notified as (
    select pg_notify('${CHANNEL}', '') from judged where not is_claimed and (wanted = 0 or not has_waiting) limit 1
  )
  select place, case when status is null or purged_at is not null then 'none' else status end,
    null::uuid, null::boolean, null::boolean, null::uuid, null::text, null::text, null::text, null::text, null::timestamptz, null::int${hasEnvelopes ? ', null::boolean' : ''}
  from requested where status is null or status = 'deleted' or purged_at is not null
  union all
  select place, null, id, is_claimed, not holds_claim_lock or not has_waiting, webhook_id, partition_key, url, secret, previous_secret, previous_until, generation${hasEnvelopes ? ', envelope' : ''}
  from judged left join notified on true;
end $$;
`

export const dispatching = dispatchFunction({ hasTraces: false, hasEnvelopes: false, hasAudiences: false })

/** Adds the trace of a dispatch to its message. Calls without it still work. */
export const dispatchingWithTraces = `
alter table webhook_messages add column traceparent text;
drop function dispatch_webhooks(double precision, uuid[], text[], text[], text[], text[], double precision[], text[], uuid[],
  uuid, int, double precision, int, int, uuid[]);
${dispatchFunction({ hasTraces: true, hasEnvelopes: false, hasAudiences: false })}`

/** Adds the form of the body to subscriptions, and to the result of a dispatch that claims. */
export const dispatchingWithEnvelopes = `
alter table webhook_subscriptions add column envelope boolean not null default false;
drop function dispatch_webhooks(double precision, uuid[], text[], text[], text[], text[], double precision[], text[], uuid[],
  uuid, int, double precision, int, int, uuid[], text[]);
${dispatchFunction({ hasTraces: true, hasEnvelopes: true, hasAudiences: false })}`

/** Adds to a message for which subscriptions it is, and keeps messages that only disabled subscriptions match. */
export const dispatchingWithAudiences = `
alter table webhook_messages add column audience text, add column is_undelivered boolean not null default false;
${dispatchFunction({ hasTraces: true, hasEnvelopes: true, hasAudiences: true })}`
