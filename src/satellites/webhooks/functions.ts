/**
 * Dispatching, claiming and settling, each one statement over many deliveries. They are functions in the database so that each
 * is one round trip, and so that claiming can hold a lock over several statements: whoever claims sees what the one before has
 * taken, and bounds are exact over all processes.
 *
 * What is dispatched outside of a transaction, by a process that sends and has room, is claimed by it in the same statement: it is
 * written once less, and need not be looked for. Only where nothing waits for the same subscription already, within the same
 * bounds, and only if nobody else is claiming: else it waits in its place like anything else.
 *
 * Time is the server's, moved by `shift_ms` (0 but in tests): processes need not agree on it.
 */

/** Any constant will do; it is ours in every database. */
const CLAIM_LOCK = 7_367_228_006

export const CHANNEL = 'multitenancy_webhooks'

/** What has fallen due that one claim looks after, the oldest first; of each tenant some, if there is more. */
const DUE_AT_ONCE = 1_000
/** Subscriptions of one lane that one claim looks at; any of them, if more are waiting. */
const WEBHOOKS_OF_A_LANE = 200
/** Deliveries of one subscription that is no more, ended by one claim. */
const ENDED_AT_ONCE = 1_000

/**
 * Plans are made once for each session, and then kept: making one takes longer than what it does. Tables are small when they are
 * made, and are not later.
 */
const PLANS = `set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set search_path = multitenancy, pg_temp`

/** Each key of what is ready once, in their order: as many looks into an index as there are keys, however much each has. */
const keysOf = (key: string, where: string, after: string): string => `with recursive keys as (
      (select ${key} as key from webhook_deliveries where is_ready and ${where} and ${key} > ${after} order by 1 limit 1)
      union all
      select next.key from keys cross join lateral (
        select ${key} as key from webhook_deliveries
        where is_ready and ${where} and ${key} > keys.key order by 1 limit 1) next
    ) select key from keys`

export const functions = `
create function webhooks_on_their_way() returns jsonb language sql ${PLANS} as $$
  with sent as (
    select lane, webhook_id, count(*) as n
    from webhook_deliveries where state = 'delivering' and not is_ready and due_at is not null group by 1, 2
  )
  select coalesce(jsonb_object_agg(who, n), '{}') from (
    select 'lane ' || lane as who, sum(n) as n from sent group by 1
    union all
    select 'webhook ' || webhook_id, n from sent
  ) counted
$$;

create function dispatch_webhooks(
  shift_ms double precision, message_ids uuid[], tenants text[], events text[], patterns text[], bodies text[],
  created double precision[], kinds text[], only_for uuid[],
  claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int)
returns table (
  place bigint, tenant_status text, id uuid, is_taken boolean, webhook_id uuid, lane text,
  url text, secret text, previous_secret text, previous_until timestamptz)
language plpgsql ${PLANS} as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp() + shift_ms * interval '1 millisecond';
  busy jsonb;
begin
  -- Whoever else is claiming takes what is left ready.
  if wanted > 0 and pg_try_advisory_xact_lock(${CLAIM_LOCK}) then
    busy := webhooks_on_their_way();
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
      s.id as webhook_id, s.url, s.secret, s.previous_secret, s.previous_until, s.listening_until
    from asked a cross join lateral (
      select * from webhook_subscriptions
      where tenant_id = a.tenant_id and (a.status <> 'deleted' or a.kind = 'farewell') and a.purged_at is null
        and enabled and deleted_at is null and (listening_until is null or listening_until > now_at)
      union all
      select * from webhook_subscriptions where tenant_id is null and enabled and deleted_at is null
        and (a.tenant_id is null or a.status <> 'deleted' or a.kind <> 'asked')
    ) s
    where s.id = a.only_for or (a.only_for is null and s.events && string_to_array(a.patterns, ' '))
  ), lanes as (
    select lane, webhook_id,
      per_tenant - coalesce((busy ->> ('lane ' || lane))::int, 0) as free_of_lane,
      per_webhook - coalesce((busy ->> ('webhook ' || webhook_id))::int, 0) as free_of_webhook
    from (select distinct lane, webhook_id from matched where busy is not null and listening_until is null) all_lanes
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
  select place, case when purged_at is not null then 'purged' else status end,
    null::uuid, null::boolean, null::uuid, null::text, null::text, null::text, null::text, null::timestamptz
  from asked left join told on true
  union all
  select place, null, id, is_taken, webhook_id, lane, url, secret, previous_secret, previous_until from judged;
end $$;

create function end_webhook_deliveries(of_lane text, of_webhook uuid, why text, now_at timestamptz, at_most int)
returns int language plpgsql ${PLANS} as $$
declare
  ended int;
begin
  with found as (
    select id from webhook_deliveries where is_ready and lane = of_lane and webhook_id = of_webhook
    limit at_most for update skip locked
  ), settled as (
    update webhook_deliveries d set state = 'failed', is_ready = false, due_at = null, claim = null, last_error = why
    from found where d.id = found.id returning d.tenant_id
  ), tally as (
    insert into webhook_tallies as t (tenant_id, since, delivered, failed)
    select tenant_id, date_bin('5 minutes', now_at, 'epoch'), 0, count(*) from settled group by 1
    on conflict (coalesce(tenant_id, '-'), since) do update set failed = t.failed + excluded.failed
  )
  select count(*) into ended from settled;
  return ended;
end $$;

create function claim_webhook_deliveries(
  shift_ms double precision, claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int,
  turns jsonb, only_webhook uuid)
returns table (
  id uuid, webhook_id uuid, tenant_id text, lane text, event text, attempt_count int, budget_start int, created_at timestamptz, body text,
  url text, secret text, previous_secret text, previous_until timestamptz,
  next_due_ms double precision, next_turns jsonb, is_more boolean, full_ones text[])
language plpgsql ${PLANS} as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  fallen_due int;
  busy jsonb;
  first_lane text := coalesce(turns ->> '', '');
  at_lane text := first_lane;
  found_lane text;
  has_wrapped boolean := false;
  free_of_lane int;
  waiting uuid[];
  drawn uuid;
  webhooks_left int;
  of_webhook uuid;
  subscription webhook_subscriptions;
  free int;
  share int;
  after_tenant text;
  tenants text[];
  tenants_left int;
  of_tenant text;
  quota int;
  got uuid[];
  taken_of_webhook int;
  is_held_back boolean;
  ids uuid[] := '{}';
  more boolean := false;
  full_ones text[] := '{}';
begin
  -- Lost in a crash of the server, a claim was never made: what it took is ready still.
  perform set_config('synchronous_commit', 'off', true);
  perform pg_advisory_xact_lock(${CLAIM_LOCK});
  now_at := clock_timestamp() + shift_ms * interval '1 millisecond';

  update webhook_deliveries d set is_ready = true
  from (select id from webhook_deliveries where state = 'delivering' and not is_ready and due_at <= now_at
    order by due_at limit ${DUE_AT_ONCE} for update skip locked) due
  where d.id = due.id;
  update webhook_deliveries d set is_ready = true
  from (select id from webhook_deliveries where state = 'retry_scheduled' and not is_ready and due_at <= now_at
    order by due_at limit ${DUE_AT_ONCE} for update skip locked) due
  where d.id = due.id;
  get diagnostics fallen_due = row_count;
  if fallen_due = ${DUE_AT_ONCE} then
    more := true;
    with recursive keys as (
      (select coalesce(tenant_id, '-') as key, due_at from webhook_deliveries
       where state = 'retry_scheduled' and not is_ready order by 1, 2 limit 1)
      union all
      select next.key, next.due_at from keys cross join lateral (
        select coalesce(tenant_id, '-') as key, due_at from webhook_deliveries
        where state = 'retry_scheduled' and not is_ready and coalesce(tenant_id, '-') > keys.key order by 1, 2 limit 1) next
    )
    update webhook_deliveries d set is_ready = true
    from keys cross join lateral (
      select id from webhook_deliveries
      where state = 'retry_scheduled' and not is_ready and coalesce(tenant_id, '-') = keys.key and due_at <= now_at
      order by due_at limit per_tenant for update skip locked) due
    where keys.due_at <= now_at and d.id = due.id;
  end if;

  busy := webhooks_on_their_way();

  loop
    exit when cardinality(ids) >= wanted;
    select lane into found_lane from webhook_deliveries where is_ready and lane > at_lane order by lane limit 1;
    if not found then
      exit when has_wrapped or first_lane = '';
      has_wrapped := true;
      at_lane := '';
      continue;
    end if;
    exit when has_wrapped and found_lane > first_lane;
    at_lane := found_lane;
    free_of_lane := per_tenant - coalesce((busy ->> ('lane ' || at_lane))::int, 0);
    if free_of_lane <= 0 then
      full_ones := full_ones || at_lane;
      continue;
    end if;

    waiting := array(${keysOf('webhook_id', 'lane = at_lane', "'00000000-0000-0000-0000-000000000000'")}
      limit ${WEBHOOKS_OF_A_LANE});
    if cardinality(waiting) = ${WEBHOOKS_OF_A_LANE} then
      drawn := gen_random_uuid();
      waiting := array(${keysOf('webhook_id', 'lane = at_lane', 'drawn')} limit ${WEBHOOKS_OF_A_LANE}) || waiting;
      waiting := array(select webhook from unnest(waiting) with ordinality as w(webhook, place)
        group by webhook order by min(place) limit ${WEBHOOKS_OF_A_LANE});
    end if;
    waiting := array(select webhook from unnest(waiting) webhook
      order by coalesce((busy ->> ('webhook ' || webhook))::int, 0), random());
    webhooks_left := cardinality(waiting);
    is_held_back := false;

    foreach of_webhook in array waiting loop
      share := (least(free_of_lane, wanted - cardinality(ids)) + webhooks_left - 1) / webhooks_left;
      exit when share <= 0;
      webhooks_left := webhooks_left - 1;
      select * into subscription from webhook_subscriptions s where s.id = of_webhook;
      if subscription.deleted_at is not null or not coalesce(subscription.enabled, false)
        or subscription.listening_until <= now_at then
        if end_webhook_deliveries(at_lane, of_webhook,
          case when subscription.enabled then 'the subscription is deleted' else 'the subscription is disabled' end,
          now_at, ${ENDED_AT_ONCE}) = ${ENDED_AT_ONCE} then more := true; end if;
        continue;
      end if;
      continue when case when only_webhook is null then subscription.listening_until is not null
        else of_webhook <> only_webhook end;
      free := per_webhook - coalesce((busy ->> ('webhook ' || of_webhook))::int, 0);
      if free <= share then full_ones := full_ones || of_webhook::text; end if;
      continue when free <= 0;
      share := least(share, free);

      -- What the host hears is taken from one tenant after the other.
      if at_lane <> '-' then
        tenants := array[at_lane];
      else
        after_tenant := coalesce(turns ->> of_webhook::text, '');
        tenants := array(
          ${keysOf("coalesce(tenant_id, '-')", "lane = '-' and webhook_id = of_webhook", 'after_tenant')} limit share);
        if cardinality(tenants) < share then
          tenants := tenants || array(select key from (
            ${keysOf("coalesce(tenant_id, '-')", "lane = '-' and webhook_id = of_webhook", "''")}) those
            where key <= after_tenant limit share - cardinality(tenants));
        end if;
      end if;
      tenants_left := cardinality(tenants);
      taken_of_webhook := 0;
      foreach of_tenant in array tenants loop
        quota := (share - taken_of_webhook + tenants_left - 1) / tenants_left;
        tenants_left := tenants_left - 1;
        with found as (
          select id from webhook_deliveries
          where is_ready and lane = at_lane and webhook_id = of_webhook and coalesce(tenant_id, '-') = of_tenant
          order by due_at limit quota for update skip locked
        ), taken as (
          update webhook_deliveries d set state = 'delivering', is_ready = false, claim = claim_id,
            due_at = now_at + lease_ms * interval '1 millisecond'
          from found where d.id = found.id returning d.id
        )
        select array_agg(id) into got from taken;
        continue when got is null;
        ids := ids || got;
        taken_of_webhook := taken_of_webhook + cardinality(got);
        is_held_back := is_held_back or cardinality(got) = quota;
        if at_lane = '-' then turns := turns || jsonb_build_object(of_webhook, of_tenant); end if;
      end loop;
      continue when taken_of_webhook = 0;
      turns := turns || jsonb_build_object('', at_lane);
      free_of_lane := free_of_lane - taken_of_webhook;
      busy := busy || jsonb_build_object('webhook ' || of_webhook, per_webhook - free + taken_of_webhook);
    end loop;
    if free_of_lane <= 0 then full_ones := full_ones || at_lane; end if;
    more := more or (is_held_back and free_of_lane > 0);
  end loop;

  return query
  select d.id, d.webhook_id, d.tenant_id, d.lane, d.event, d.attempt_count, d.budget_start, d.created_at, m.body,
    s.url, s.secret, s.previous_secret, s.previous_until, null::double precision, null::jsonb, null::boolean, null::text[]
  from unnest(ids) taken join webhook_deliveries d on d.id = taken
  left join webhook_messages m on m.id = d.message_id join webhook_subscriptions s on s.id = d.webhook_id;

  return query
  select null::uuid, null::uuid, null::text, null::text, null::text, null::int, null::int, null::timestamptz, null::text,
    null::text, null::text, null::text, null::timestamptz,
    (select extract(epoch from min(next.due_at) - now_at)::double precision * 1000
     from (values ('delivering'), ('retry_scheduled')) those(state) cross join lateral (
       select due_at from webhook_deliveries d
       where d.state = those.state and not is_ready and due_at is not null order by due_at limit 1) next),
    turns, more or cardinality(ids) >= wanted, full_ones;
end $$;

create function settle_webhook_deliveries(
  shift_ms double precision, ids uuid[], claims uuid[], states text[], delays_ms double precision[], statuses int[],
  errors text[], blamed boolean[], started double precision[], durations_ms int[], addresses text[],
  request_headers text[], response_headers text[], response_bodies text[])
returns table (settled uuid[], failing_webhooks uuid[], failing_since timestamptz[]) language plpgsql ${PLANS} as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp() + shift_ms * interval '1 millisecond';
  settled_ids uuid[];
  healthy uuid[];
  failing uuid[];
begin
  with outcome as (
    select * from unnest(ids, claims, states, delays_ms, statuses, errors, blamed, started, durations_ms, addresses,
      request_headers, response_headers, response_bodies)
      as o(id, claim, state, delay_ms, status, error, is_blamed, started, duration_ms, address,
        request_headers, response_headers, response_body)
  ), settled as (
    update webhook_deliveries d set state = o.state, is_ready = false, claim = null, attempt_count = d.attempt_count + 1,
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
  select array_agg(id), coalesce(array_agg(distinct webhook_id) filter (where state = 'delivered'), '{}'),
    coalesce(array_agg(distinct webhook_id) filter (where state <> 'delivered' and is_blamed), '{}')
  into settled_ids, healthy, failing from settled;

  -- In one order, so that two who settle do not wait for one another.
  perform from webhook_subscriptions s
  where s.id = any(healthy || failing) and (s.failing_since is not null) = (s.id = any(healthy))
  order by s.id for no key update;
  update webhook_subscriptions s set failing_since = null where s.id = any(healthy) and s.failing_since is not null;
  update webhook_subscriptions s set failing_since = now_at
  where s.id = any(failing) and s.failing_since is null and s.id <> all(healthy);

  return query
  select settled_ids, array_agg(s.id), array_agg(s.failing_since)
  from webhook_subscriptions s where s.id = any(failing) and s.failing_since is not null;
end $$;
`
