/**
 * Dispatching and settling as 0.1.0 released them: their texts are part of a migration, and are not edited. `dispatch.ts` and
 * `settle.ts` have taken their places.
 */
import { CHANNEL, CLAIM_LOCK, LOCK_TIMEOUT, PLANS } from './settings.ts'

export const dispatchingReleased = `
create function dispatch_webhooks(
  shift_ms double precision, message_ids uuid[], tenants text[], events text[], patterns text[], bodies text[],
  created double precision[], kinds text[], only_for uuid[],
  claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int)
returns table (
  place bigint, refused text, id uuid, is_taken boolean, webhook_id uuid, lane text,
  url text, secret text, previous_secret text, previous_until timestamptz)
language plpgsql ${PLANS} as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp() + shift_ms * interval '1 millisecond';
  busy jsonb;
begin
  -- Whoever else is claiming takes what is left ready.
  if wanted > 0 and pg_try_advisory_xact_lock(${CLAIM_LOCK}) then
    busy := webhooks_on_their_way(now_at);
  end if;
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
      s.id as webhook_id, s.url, s.secret, s.previous_secret, s.previous_until, s.listening_until, s.failing_since
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
  ), lanes as (
    select lane, webhook_id,
      per_tenant - coalesce((busy ->> ('lane ' || lane))::int, 0) as free_of_lane,
      per_webhook - coalesce((busy ->> ('webhook ' || webhook_id))::int, 0) as free_of_webhook
    from (select distinct lane, webhook_id from matched
      where busy is not null and listening_until is null and failing_since is null) all_lanes
    -- Those who wait already come first.
    where not exists (select from webhook_deliveries d
      where d.is_ready and d.lane = all_lanes.lane and d.webhook_id = all_lanes.webhook_id)
  ), judged as (
    select m.*, coalesce(
      row_number() over (order by place, webhook_id) <= wanted
      and row_number() over (partition by lane order by place, webhook_id) <= free_of_lane
      and row_number() over (partition by webhook_id order by place) <= free_of_webhook, false) as is_taken
    from matched m left join lanes using (lane, webhook_id)
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
    select pg_notify('${CHANNEL}', '') from judged where not is_taken limit 1
  )
  select place, case when status is null or purged_at is not null then 'none' else status end,
    null::uuid, null::boolean, null::uuid, null::text, null::text, null::text, null::text, null::timestamptz
  from asked where status is null or status = 'deleted' or purged_at is not null
  union all
  select place, null, id, is_taken, webhook_id, lane, url, secret, previous_secret, previous_until
  from judged left join told on true;
end $$;
`

export const settlingReleased = `
create function settle_webhook_deliveries(
  shift_ms double precision, ids uuid[], claims uuid[], states text[], delays_ms double precision[], statuses int[],
  errors text[], blamed boolean[], started double precision[], durations_ms int[], addresses text[],
  request_headers text[], response_headers text[], response_bodies text[])
returns table (not_ours uuid[], failing_webhooks uuid[], failing_since timestamptz[]) language plpgsql ${PLANS} set lock_timeout = '${LOCK_TIMEOUT}' as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp() + shift_ms * interval '1 millisecond';
  count_settled int;
  others uuid[];
  healthy uuid[];
  failing uuid[];
  changed uuid[];
begin
  with outcome as (
    select * from unnest(ids, claims, states, delays_ms, statuses, errors, blamed, started, durations_ms, addresses,
      request_headers, response_headers, response_bodies)
      as o(id, claim, state, delay_ms, status, error, is_blamed, started, duration_ms, address,
        request_headers, response_headers, response_body)
  ), settled as (
    update webhook_deliveries d set state = o.state, is_ready = false, attempt_count = d.attempt_count + 1,
      due_at = now_at + o.delay_ms * interval '1 millisecond', last_status = o.status, last_error = o.error,
      delivered_at = case when o.state = 'delivered' then now_at end
    from outcome o where d.id = o.id and d.claim = o.claim and d.state = 'delivering'
    returning d.id, d.attempt_count as number, d.tenant_id, d.webhook_id, d.state, o.is_blamed, o.started, o.duration_ms,
      o.status, o.error, o.address, o.request_headers, o.response_headers, o.response_body
  ), attempt as (
    insert into webhook_attempts (delivery_id, number, tenant_id, started_at, duration_ms, status, error, address,
      request_headers, response_headers, response_body)
    select id, number, tenant_id, to_timestamp(started / 1000), duration_ms, status, error, address,
      request_headers::json, response_headers::json, response_body
    from settled
  ), tally as (
    insert into webhook_tallies as t (tenant_id, since, delivered, failed)
    select tenant_id, date_bin('5 minutes', now_at, 'epoch'),
      count(*) filter (where state = 'delivered'), count(*) filter (where state = 'failed')
    from settled where state in ('delivered', 'failed') group by 1 order by 1
    on conflict (coalesce(tenant_id, '-'), since)
      do update set delivered = t.delivered + excluded.delivered, failed = t.failed + excluded.failed
  )
  select count(*), coalesce(array_agg(distinct webhook_id) filter (where state = 'delivered'), '{}'),
    coalesce(array_agg(distinct webhook_id) filter (where state <> 'delivered' and is_blamed), '{}')
  into count_settled, healthy, failing from settled;

  -- Somebody who has one of them locked must not keep the others from being settled; the next settlement says it again.
  changed := array(select s.id from webhook_subscriptions s
    where s.id = any(healthy || failing) and (s.failing_since is not null) = (s.id = any(healthy))
    for no key update skip locked);
  update webhook_subscriptions s set failing_since = case when s.id = any(healthy) then null else now_at end
  where s.id = any(changed);

  -- But for what was settled before by this very claim, whose answer was lost.
  if count_settled < cardinality(ids) then
    others := array(select o.id from unnest(ids, claims) as o(id, claim) where not exists (
      select from webhook_deliveries d where d.id = o.id and d.claim = o.claim and d.state <> 'delivering'));
  end if;

  return query
  select others, array_agg(s.id), array_agg(s.failing_since)
  from webhook_subscriptions s where s.id = any(failing) and s.failing_since is not null;
end $$;
`
