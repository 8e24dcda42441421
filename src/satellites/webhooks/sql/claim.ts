/**
 * The function that claims deliveries.
 *
 * - Due deliveries become ready first, the oldest first. If a claim cannot process all of them, each tenant gets a share.
 * - Partitions take turns, from the position of the last claim. A partition is the subscriptions of a tenant, or those of the host.
 * - In a partition, subscriptions with the fewest deliveries in flight come first. Each has an equal share.
 * - In a subscription of the host, the tenants of the events take turns.
 * - The worker states how many deliveries to failing and slow receivers it has room for.
 *
 * Bodies are loaded separately (queue.ts), so the lock is held shortly. The cost grows with claimed deliveries, not with waiting ones:
 * keys of an index are found by a loose index scan (`keysOf`).
 */
import { boundOf, CLAIM_LOCK, FAILING, LOCK_TIMEOUT, PLANS } from './settings.ts'

/** Maximum of due deliveries that one claim makes ready. */
const DUE_AT_ONCE = 1_000
/** Maximum of subscriptions of one partition that one claim considers, chosen at random if more have ready deliveries. */
const WEBHOOKS_PER_PARTITION = 200
/** Maximum of deliveries of a deleted or disabled subscription that one claim ends. */
const ENDED_AT_ONCE = 1_000

/** The distinct keys of ready deliveries in order, by a loose index scan: one index lookup for each key. */
const keysOf = (key: string, where: string, after: string): string => `with recursive keys as (
      (select ${key} as key from webhook_deliveries where is_ready and ${where} and ${key} > ${after} order by 1 limit 1)
      union all
      select next.key from keys cross join lateral (
        select ${key} as key from webhook_deliveries
        where is_ready and ${where} and ${key} > keys.key order by 1 limit 1) next
    ) select key from keys`

const ending = `
create function fail_webhook_deliveries(of_partition text, of_webhook uuid, why text, now_at timestamptz, at_most int)
returns int language plpgsql ${PLANS} as $$
declare
  ended int;
begin
  with found as (
    select id from webhook_deliveries where is_ready and partition_key = of_partition and webhook_id = of_webhook
    limit at_most for update skip locked
  ), settled as (
    update webhook_deliveries d set state = 'failed', is_ready = false, due_at = null, claim = null, last_error = why
    from found where d.id = found.id returning d.tenant_id
  ), tally as (
    insert into webhook_counters as t (tenant_id, since, delivered, failed)
    select tenant_id, date_bin('5 minutes', now_at, 'epoch'), 0, count(*) from settled group by 1 order by 1
    on conflict (coalesce(tenant_id, '-'), since) do update set failed = t.failed + excluded.failed
  )
  select count(*) into ended from settled;
  return ended;
end $$;
`

const STANDS_APART = '(subscription.failing_since is not null or of_webhook = any(slow_webhooks))'

export const claiming = `${ending}
create function claim_webhook_deliveries(
  shift_ms double precision, claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int,
  wanted_failing int, turns jsonb, only_webhook uuid, slow_webhooks uuid[] default '{}')
returns table (
  id uuid, webhook_id uuid, tenant_id text, partition_key text, event text, attempt_count int, budget_start int, created_at timestamptz,
  message_id uuid, bytes int, is_failing boolean, url text, secret text, previous_secret text, previous_until timestamptz,
  next_due_ms double precision, next_turns jsonb, is_more boolean, full_ones text[])
language plpgsql ${PLANS} set lock_timeout = '${LOCK_TIMEOUT}' as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  failing_left int := wanted_failing;
  fallen_due int;
  busy jsonb;
  first_partition text := coalesce(turns ->> '', '');
  at_partition text := first_partition;
  found_partition text;
  has_wrapped boolean := false;
  free_of_partition int;
  waiting uuid[];
  drawn uuid;
  webhooks_left int;
  of_webhook uuid;
  subscription webhook_subscriptions;
  in_flight int;
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
  -- A crash of the server that loses a claim leaves its deliveries ready.
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

  busy := webhook_deliveries_in_flight(now_at);

  loop
    exit when cardinality(ids) >= wanted;
    select partition_key into found_partition from webhook_deliveries where is_ready and partition_key > at_partition order by partition_key limit 1;
    if not found then
      exit when has_wrapped or first_partition = '';
      has_wrapped := true;
      at_partition := '';
      continue;
    end if;
    exit when has_wrapped and found_partition > first_partition;
    at_partition := found_partition;
    free_of_partition := per_tenant - coalesce((busy ->> ('partition ' || at_partition))::int, 0);
    if free_of_partition <= 0 then
      full_ones := full_ones || at_partition;
      continue;
    end if;

    waiting := array(${keysOf('webhook_id', 'partition_key = at_partition', "'00000000-0000-0000-0000-000000000000'")}
      limit ${WEBHOOKS_PER_PARTITION});
    if cardinality(waiting) = ${WEBHOOKS_PER_PARTITION} then
      drawn := gen_random_uuid();
      waiting := array(${keysOf('webhook_id', 'partition_key = at_partition', 'drawn')} limit ${WEBHOOKS_PER_PARTITION}) || waiting;
      waiting := array(select webhook from unnest(waiting) with ordinality as w(webhook, place)
        group by webhook order by min(place) limit ${WEBHOOKS_PER_PARTITION});
    end if;
    waiting := array(select webhook from unnest(waiting) webhook
      order by coalesce((busy ->> ('webhook ' || webhook))::int, 0), random());
    webhooks_left := cardinality(waiting);
    is_held_back := false;

    foreach of_webhook in array waiting loop
      share := (least(free_of_partition, wanted - cardinality(ids)) + webhooks_left - 1) / webhooks_left;
      exit when share <= 0;
      webhooks_left := webhooks_left - 1;
      select * into subscription from webhook_subscriptions s where s.id = of_webhook;
      if subscription.deleted_at is not null or not coalesce(subscription.enabled, false)
        or subscription.listening_until <= now_at then
        if fail_webhook_deliveries(at_partition, of_webhook,
          case when subscription.enabled then 'the subscription is deleted' else 'the subscription is disabled' end,
          now_at, ${ENDED_AT_ONCE}) = ${ENDED_AT_ONCE} then more := true; end if;
        continue;
      end if;
      continue when case when only_webhook is null then subscription.listening_until is not null
        else of_webhook <> only_webhook end;
      in_flight := coalesce((busy ->> ('webhook ' || of_webhook))::int, 0);
      free := ${boundOf('subscription.failing_since')} - in_flight;
      if ${STANDS_APART} and failing_left < least(free, share) then
        full_ones := full_ones || '${FAILING}'::text;
        free := least(free, failing_left);
      end if;
      if free <= share then full_ones := full_ones || of_webhook::text; end if;
      continue when free <= 0;
      share := least(share, free);

      -- Subscriptions of the host take from one tenant after the other.
      if at_partition <> '-' then
        tenants := array[at_partition];
      else
        after_tenant := coalesce(turns ->> of_webhook::text, '');
        tenants := array(
          ${keysOf("coalesce(tenant_id, '-')", "partition_key = '-' and webhook_id = of_webhook", 'after_tenant')} limit share);
        if cardinality(tenants) < share then
          tenants := tenants || array(select key from (
            ${keysOf("coalesce(tenant_id, '-')", "partition_key = '-' and webhook_id = of_webhook", "''")}) those
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
          where is_ready and partition_key = at_partition and webhook_id = of_webhook and coalesce(tenant_id, '-') = of_tenant
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
        if at_partition = '-' then turns := turns || jsonb_build_object(of_webhook, of_tenant); end if;
      end loop;
      continue when taken_of_webhook = 0;
      turns := turns || jsonb_build_object('', at_partition);
      free_of_partition := free_of_partition - taken_of_webhook;
      if ${STANDS_APART} then failing_left := failing_left - taken_of_webhook; end if;
      busy := busy || jsonb_build_object('webhook ' || of_webhook, in_flight + taken_of_webhook);
    end loop;
    if free_of_partition <= 0 then full_ones := full_ones || at_partition; end if;
    more := more or (is_held_back and free_of_partition > 0);
  end loop;

  return query
  select d.id, d.webhook_id, d.tenant_id, d.partition_key, d.event, d.attempt_count, d.budget_start, d.created_at,
    d.message_id, octet_length(m.body), s.failing_since is not null, s.url, s.secret, s.previous_secret, s.previous_until, null::double precision, null::jsonb, null::boolean, null::text[]
  from unnest(ids) taken join webhook_deliveries d on d.id = taken
  left join webhook_messages m on m.id = d.message_id join webhook_subscriptions s on s.id = d.webhook_id;

  return query
  select null::uuid, null::uuid, null::text, null::text, null::text, null::int, null::int, null::timestamptz,
    null::uuid, null::int, null::boolean, null::text, null::text, null::text, null::timestamptz,
    (select extract(epoch from min(next.due_at) - now_at)::double precision * 1000
     from (values ('delivering'), ('retry_scheduled')) those(state) cross join lateral (
       select due_at from webhook_deliveries d
       where d.state = those.state and not is_ready and due_at is not null order by due_at limit 1) next),
    turns, more or cardinality(ids) >= wanted, full_ones;
end $$;
`
