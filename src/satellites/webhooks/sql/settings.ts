/** What the SQL functions of webhooks have in common. */

/** An advisory lock; any constant. */
export const CLAIM_LOCK = 7_367_228_006

export const CHANNEL = 'multitenancy_webhooks'

/** Maximum of deliveries in flight to a failing subscription, until its next success. */
export const TO_ONE_THAT_FAILS = 2

/** In the list of full partitions and subscriptions: no more deliveries to failing receivers are claimed. */
export const FAILING = 'failing'

/** Limit of waiting for a row or for the claim lock, below the timeout of the client. */
export const LOCK_TIMEOUT = '5s'

/** Plans are generic: planning takes longer than execution. They use indexes, as tables may be small when a plan is made. */
export const PLANS = `set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set search_path = multitenancy, pg_temp`

/** Maximum of deliveries in flight to a subscription. @param failingSince expression of its column `failing_since` */
export const boundOf = (failingSince: string): string =>
  `case when ${failingSince} is null then per_webhook else least(per_webhook, ${TO_ONE_THAT_FAILS}) end`

/** Counts deliveries in flight by partition and by subscription. An expired lease does not count. */
export const onTheirWay = `
create function webhook_deliveries_in_flight(now_at timestamptz) returns jsonb language sql ${PLANS} as $$
  with sent as (
    select partition_key, webhook_id, count(*) as n
    from webhook_deliveries where state = 'delivering' and not is_ready and due_at > now_at group by 1, 2
  )
  select coalesce(jsonb_object_agg(who, n), '{}') from (
    select 'partition ' || partition_key as who, sum(n) as n from sent group by 1
    union all
    select 'webhook ' || webhook_id, n from sent
  ) counted
$$;
`
