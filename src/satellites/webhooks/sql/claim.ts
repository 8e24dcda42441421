/**
 * Claiming: who gets what.
 *
 * - What has fallen due is made ready first: the oldest, and where there is more than one claim looks after, some of each tenant.
 * - Lanes have their turns, one after the other, from where the claim before has ended. A lane is a tenant's own subscriptions, or
 *   the host's.
 * - In a lane, subscriptions that have the least on their way come first, and each has an equal share of what the lane may take.
 * - In a subscription of the host, the tenants whose events it hears have their turns.
 *
 * - Of what fails, or is slow as far as whoever claims knows, no more is taken than that one has room for.
 *
 * Bodies are read apart (queue.ts), so that nobody holds the lock for as long as they take to arrive.
 *
 * Nothing is looked at for each delivery or tenant that waits, but for each of which something is taken: keys of an index are found
 * by leaps (`keysOf`).
 */
import { boundOf, CLAIM_LOCK, FAILING, LOCK_TIMEOUT, PLANS } from './settings.ts'

/** What has fallen due that one claim looks after, the oldest first; of each tenant some, if there is more. */
const DUE_AT_ONCE = 1_000
/** Subscriptions of one lane that one claim looks at; any of them, if more are waiting. */
const WEBHOOKS_OF_A_LANE = 200
/** Deliveries of one subscription that is no more, ended by one claim. */
const ENDED_AT_ONCE = 1_000

/** Each key of what is ready once, in their order: as many looks into an index as there are keys, however much each has. */
const keysOf = (key: string, where: string, after: string): string => `with recursive keys as (
      (select ${key} as key from webhook_deliveries where is_ready and ${where} and ${key} > ${after} order by 1 limit 1)
      union all
      select next.key from keys cross join lateral (
        select ${key} as key from webhook_deliveries
        where is_ready and ${where} and ${key} > keys.key order by 1 limit 1) next
    ) select key from keys`

const ending = `
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
    select tenant_id, date_bin('5 minutes', now_at, 'epoch'), 0, count(*) from settled group by 1 order by 1
    on conflict (coalesce(tenant_id, '-'), since) do update set failed = t.failed + excluded.failed
  )
  select count(*) into ended from settled;
  return ended;
end $$;
`

const STANDS_APART = '(subscription.failing_since is not null or of_webhook = any(sluggish))'

export const claiming = `${ending}
create function claim_webhook_deliveries(
  shift_ms double precision, claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int,
  wanted_failing int, turns jsonb, only_webhook uuid, sluggish uuid[] default '{}')
returns table (
  id uuid, webhook_id uuid, tenant_id text, lane text, event text, attempt_count int, budget_start int, created_at timestamptz,
  message_id uuid, bytes int, is_failing boolean, url text, secret text, previous_secret text, previous_until timestamptz,
  next_due_ms double precision, next_turns jsonb, is_more boolean, full_ones text[])
language plpgsql ${PLANS} set lock_timeout = '${LOCK_TIMEOUT}' as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  failing_left int := wanted_failing;
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
  on_its_way int;
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

  busy := webhooks_on_their_way(now_at);

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
      on_its_way := coalesce((busy ->> ('webhook ' || of_webhook))::int, 0);
      free := ${boundOf('subscription.failing_since')} - on_its_way;
      if ${STANDS_APART} and failing_left < least(free, share) then
        full_ones := full_ones || '${FAILING}'::text;
        free := least(free, failing_left);
      end if;
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
      if ${STANDS_APART} then failing_left := failing_left - taken_of_webhook; end if;
      busy := busy || jsonb_build_object('webhook ' || of_webhook, on_its_way + taken_of_webhook);
    end loop;
    if free_of_lane <= 0 then full_ones := full_ones || at_lane; end if;
    more := more or (is_held_back and free_of_lane > 0);
  end loop;

  return query
  select d.id, d.webhook_id, d.tenant_id, d.lane, d.event, d.attempt_count, d.budget_start, d.created_at,
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
