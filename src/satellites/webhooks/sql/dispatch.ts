/**
 * Dispatching. What is dispatched outside of a transaction, by a process that sends and has room, is claimed by it in the same
 * statement: it is written once less, and need not be looked for. Only where nothing waits for the same subscription already, and
 * it does not fail, and is not slow as far as that process knows; within the same bounds, and only if nobody else is claiming: else it
 * waits in its place like anything else.
 *
 * Everybody is told of what is left when nothing waited for the same subscription before: for what did, they were told, and go on
 * until they have it, or remember that it is full. Who could not see whether somebody is claiming just now (`is_news`) looks for
 * itself. In a transaction nothing is known of what will wait when it commits, so that everybody is told.
 */
import { CHANNEL, CLAIM_LOCK, PLANS } from './settings.ts'

export const dispatching = `
create function dispatch_webhooks(
  shift_ms double precision, message_ids uuid[], tenants text[], events text[], patterns text[], bodies text[],
  created double precision[], kinds text[], only_for uuid[],
  claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int, sluggish uuid[] default '{}')
returns table (
  place bigint, refused text, id uuid, is_taken boolean, is_news boolean, webhook_id uuid, lane text,
  url text, secret text, previous_secret text, previous_until timestamptz, beginning int)
language plpgsql ${PLANS} as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp() + shift_ms * interval '1 millisecond';
  -- Whoever else is claiming takes what is left ready.
  is_alone boolean := wanted > 0 and pg_try_advisory_xact_lock(${CLAIM_LOCK});
  busy jsonb := case when is_alone then webhooks_on_their_way(now_at) else '{}' end;
begin
  return query
  with asked as (
    select a.*, t.status, t.purged_at
    from unnest(message_ids, tenants, events, patterns, bodies, created, kinds, only_for) with ordinality
      as a(message_id, tenant_id, event, patterns, body, created, kind, only_for, place)
    left join tenants t on t.id = a.tenant_id
  ), matched as (
    select a.place, a.message_id, a.tenant_id, a.event, a.body, to_timestamp(a.created / 1000) as created_at,
      coalesce(s.tenant_id, '-') as lane,
      overlay(gen_random_uuid()::text placing left(a.message_id::text, 15) from 1 for 15)::uuid as id,
      s.id as webhook_id, s.url, s.secret, s.previous_secret, s.previous_until, s.beginning,
      s.listening_until is null and s.failing_since is null and s.id <> all(sluggish) as is_sound, row_number() over () as nth
    from asked a cross join lateral (
      select * from webhook_subscriptions
      where tenant_id = a.tenant_id and (a.status <> 'deleted' or a.kind = 'farewell') and a.purged_at is null
        and enabled and deleted_at is null and (listening_until is null or listening_until > now_at)
      union all
      select * from webhook_subscriptions where tenant_id is null and enabled and deleted_at is null
        and (a.tenant_id is not null or a.kind = 'own' or a.only_for is not null)
        and (a.tenant_id is null or a.status <> 'deleted' or a.kind <> 'asked')
    ) s
    where s.id = a.only_for or (a.only_for is null and s.events && string_to_array(a.patterns, ' '))
  ), counted as (
    select m.*, row_number() over of_webhook as nth_of_webhook,
      row_number() over (partition by lane order by webhook_id, nth) as nth_of_lane
    from matched m window of_webhook as (partition by lane, webhook_id order by nth)
  ), looked_up as (
    select c.*, bool_or(case when nth_of_webhook = 1 then exists (
        select from webhook_deliveries d where d.is_ready and d.lane = c.lane and d.webhook_id = c.webhook_id)
      end) over (partition by lane, webhook_id) is true as has_waiting
    from counted c
  ), judged as (
    select *, is_alone and is_sound and not has_waiting and nth <= wanted
      and nth_of_lane <= per_tenant - coalesce((busy ->> ('lane ' || lane))::int, 0)
      and nth_of_webhook <= per_webhook - coalesce((busy ->> ('webhook ' || webhook_id))::int, 0) as is_taken
    from looked_up
  ), message as (
    insert into webhook_messages (id, tenant_id, event, body, created_at)
    select distinct on (message_id) message_id, tenant_id, event, body, created_at from matched
  ), delivery as (
    insert into webhook_deliveries
      (id, message_id, webhook_id, tenant_id, lane, event, state, is_ready, due_at, claim, created_at)
    select id, message_id, webhook_id, tenant_id, lane, event, case when is_taken then 'delivering' else 'pending' end,
      not is_taken, case when is_taken then now_at + lease_ms * interval '1 millisecond' else now_at end,
      case when is_taken then claim_id end, created_at
    from judged
  ), told as (
    select pg_notify('${CHANNEL}', '') from judged where not is_taken and (wanted = 0 or not has_waiting) limit 1
  )
  select place, case when status is null or purged_at is not null then 'none' else status end,
    null::uuid, null::boolean, null::boolean, null::uuid, null::text, null::text, null::text, null::text, null::timestamptz, null::int
  from asked where status is null or status = 'deleted' or purged_at is not null
  union all
  select place, null, id, is_taken, not is_alone or not has_waiting, webhook_id, lane, url, secret, previous_secret, previous_until, beginning
  from judged left join told on true;
end $$;
`
