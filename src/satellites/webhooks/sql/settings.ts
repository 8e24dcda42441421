/** What the functions of webhooks have in common. */

/** Any constant will do; it is ours in every database. */
export const CLAIM_LOCK = 7_367_228_006

export const CHANNEL = 'multitenancy_webhooks'

/**
 * On their way at once to a subscription that knows nothing but failures at present; its next success opens it again. Of all that
 * one process holds such deliveries are a part at most, so that receivers that never answer leave room to the others.
 */
export const TO_ONE_THAT_FAILS = 2

/** Stands among those that are full when no more of what fails may be taken. */
export const FAILING = 'failing'

/** How long a statement waits for a row or for its turn; a connection that waits longer than its client does work for nobody. */
export const LOCK_TIMEOUT = '5s'

/**
 * Plans are made once for each session, and then kept: making one takes longer than what it does. Tables are small when they are
 * made, and are not later.
 */
export const PLANS = `set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set search_path = multitenancy, pg_temp`

/** How many may be on their way to one subscription. @param failingSince the expression that says since when it fails */
export const boundOf = (failingSince: string): string =>
  `case when ${failingSince} is null then per_webhook else least(per_webhook, ${TO_ONE_THAT_FAILS}) end`

/** By lane and by subscription. A lease that has lapsed holds no place. */
export const onTheirWay = `
create function webhooks_on_their_way(now_at timestamptz) returns jsonb language sql ${PLANS} as $$
  with sent as (
    select lane, webhook_id, count(*) as n
    from webhook_deliveries where state = 'delivering' and not is_ready and due_at > now_at group by 1, 2
  )
  select coalesce(jsonb_object_agg(who, n), '{}') from (
    select 'lane ' || lane as who, sum(n) as n from sent group by 1
    union all
    select 'webhook ' || webhook_id, n from sent
  ) counted
$$;
`
