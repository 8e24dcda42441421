/** The function that settles deliveries: it records results under the claim of each request. A lost claim changes nothing. */
import { LOCK_TIMEOUT, PLANS } from './settings.ts'

export const settling = `
create function settle_webhook_deliveries(
  shift_ms double precision, ids uuid[], claims uuid[], states text[], delays_ms double precision[], statuses int[],
  errors text[], blamed boolean[], started double precision[], durations_ms int[], addresses text[],
  request_headers text[], response_headers text[], response_bodies text[])
returns table (lost uuid[], failing_webhooks uuid[], failing_since timestamptz[]) language plpgsql ${PLANS} set lock_timeout = '${LOCK_TIMEOUT}' as $$
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
    insert into webhook_counters as t (tenant_id, since, delivered, failed)
    select tenant_id, date_bin('5 minutes', now_at, 'epoch'),
      count(*) filter (where state = 'delivered'), count(*) filter (where state = 'failed')
    from settled where state in ('delivered', 'failed') group by 1 order by 1
    on conflict (coalesce(tenant_id, '-'), since)
      do update set delivered = t.delivered + excluded.delivered, failed = t.failed + excluded.failed
  )
  select count(*), coalesce(array_agg(distinct webhook_id) filter (where state = 'delivered'), '{}'),
    coalesce(array_agg(distinct webhook_id) filter (where state <> 'delivered' and is_blamed), '{}')
  into count_settled, healthy, failing from settled;

  -- A locked subscription is skipped, so that the other deliveries are settled; the next settlement sets its state.
  changed := array(select s.id from webhook_subscriptions s
    where s.id = any(healthy || failing) and (s.failing_since is not null) = (s.id = any(healthy))
    for no key update skip locked);
  if cardinality(changed) > 0 then
    update webhook_subscriptions s set failing_since = case when s.id = any(healthy) then null else now_at end
    where s.id = any(changed);
  end if;

  -- Except deliveries that this claim has settled before, and whose response was lost.
  if count_settled < cardinality(ids) then
    others := array(select o.id from unnest(ids, claims) as o(id, claim) where not exists (
      select from webhook_deliveries d where d.id = o.id and d.claim = o.claim and d.state <> 'delivering'));
  end if;

  if cardinality(failing) = 0 then
    return query values (others, null::uuid[], null::timestamptz[]);
  else
    return query select others, array_agg(s.id), array_agg(s.failing_since)
    from webhook_subscriptions s where s.id = any(failing) and s.failing_since is not null;
  end if;
end $$;
`
