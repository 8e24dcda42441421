-- made by `npm run generate`: every migration of the backoffice, in order; all of it in the schema multitenancy

-- kernel/0001_kernel
create table idempotency_keys (
  scope text primary key,
  request_hash text not null,
  lease uuid not null,
  leased_until timestamptz not null,
  response text,
  expires_at timestamptz not null
);
create index idempotency_keys_expiry on idempotency_keys (expires_at);

create table job_names (
  kind text not null check (kind in ('queue', 'schedule')),
  name text not null,
  seen_at timestamptz not null,
  primary key (kind, name)
);

-- store/0001_store
create table store (
  owner text collate "C" not null,
  key text collate "C" not null,
  value text not null,
  expires_at timestamptz,
  primary key (owner, key)
);
create index store_expires_at on store (expires_at) where expires_at is not null;

create table store_counters (
  day date not null,
  tenant_id text collate "C" not null,
  name text collate "C" not null,
  count bigint not null,
  ceiling bigint not null,
  cleared bigint not null default 0,
  primary key (day, tenant_id, name)
) with (fillfactor = 50);
comment on column store_counters.cleared is 'sum of what was removed from the count on that day';
comment on column store_counters.ceiling is
  'maximum of the count for a proposed row: "on conflict" can read its columns only';

create table store_gauges (
  tenant_id text collate "C" not null,
  name text collate "C" not null,
  value float8 not null,
  primary key (tenant_id, name)
);

create function take_counters(
  offset_ms float8,
  -- One element for each counter: the total of all callers, and the maximum of the count (-1: decide caller by caller).
  owners text[], names text[], totals bigint[], ceilings bigint[],
  -- One element for each caller and counter, grouped by caller. A limit of -1 is no limit.
  callers int[], wanted int[], amounts bigint[], limits bigint[],
  out now_ms float8, out counts_before text, out verdicts text
)
language plpgsql
-- Plans are kept for long, and the table may be small when a plan is made.
set enable_seqscan = off
set enable_bitmapscan = off
as $function$
declare
  max_count constant bigint := 9007199254740991;
  moment constant timestamptz := clock_timestamp() + offset_ms * interval '1 millisecond';
  today constant date := (moment at time zone 'UTC')::date;
  added bigint[];
  before bigint[];
  counts bigint[];
  verdict int;
  decisions int[];
  first int := 1;
  last int;
begin
  now_ms := extract(epoch from moment) * 1000;

  with proposed as (
    insert into multitenancy.store_counters as kept (day, tenant_id, name, count, ceiling)
    select today, tenant_id, name, case when total <= ceiling then total else 0 end, ceiling
    from unnest(owners, names, totals, ceilings) with ordinality as requested (tenant_id, name, total, ceiling, place)
    where total > 0 order by place
    on conflict (day, tenant_id, name) do update set count = kept.count + excluded.count
      where excluded.count > 0 and kept.count + excluded.count <= excluded.ceiling
    returning tenant_id, name, count
  )
  select array_agg(proposed.count order by place) into added
  from unnest(owners, names) with ordinality as requested (tenant_id, name, place)
  left join proposed using (tenant_id, name);

  if array_position(added, null) is null and array_position(added, 0) is null then
    select string_agg((after - total)::text, ',' order by place) into counts_before
    from unnest(added, totals) with ordinality as sums (after, total, place);
    return;
  end if;

  select array_agg(case when after > 0 then after - total else coalesce((
    select kept.count from multitenancy.store_counters as kept
    where kept.day = today and kept.tenant_id = requested.tenant_id and kept.name = requested.name), 0) end order by place)
  into before
  from unnest(owners, names, totals, added) with ordinality as requested (tenant_id, name, total, after, place);
  counts_before := array_to_string(before, ',');

  counts := before;
  while first <= array_length(callers, 1) loop
    verdict := 1;
    last := first;
    loop
      if amounts[last] > 0 and limits[last] >= 0 and counts[wanted[last]] + amounts[last] > limits[last] then
        verdict := 0;
      elsif verdict = 1 and counts[wanted[last]] + amounts[last] > max_count then
        verdict := -1;
      end if;
      exit when callers[last + 1] is distinct from callers[first];
      last := last + 1;
    end loop;
    if verdict = 1 then
      for place in first..last loop
        counts[wanted[place]] := counts[wanted[place]] + amounts[place];
      end loop;
    end if;
    decisions[callers[first]] := verdict;
    first := last + 1;
  end loop;
  verdicts := array_to_string(decisions, ',');

  for place in 1..array_length(owners, 1) loop
    if coalesce(added[place], 0) = 0 and counts[place] > before[place] then
      update multitenancy.store_counters set count = counts[place]
      where day = today and tenant_id = owners[place] and name = names[place];
    end if;
  end loop;
end
$function$;

create table store_sums (
  day date not null,
  tenant_id text collate "C" not null,
  name text collate "C" not null,
  incarnation uuid not null default gen_random_uuid(),
  sum bigint not null,
  primary key (day, tenant_id, name)
) with (fillfactor = 50);
create index store_sums_of_tenant on store_sums (tenant_id, day);

create table store_sum_sources (
  source uuid primary key,
  number bigint not null,
  seen_at timestamptz not null
);
comment on table store_sum_sources is 'number of the last batch of each process, so that no batch is added twice';

-- tenants/0001_tenants
create table tenants (
  id text primary key check (id ~ '^[a-z0-9][a-z0-9_-]{0,47}$'),
  name text not null,
  status text not null check (status in ('provisioning', 'active', 'suspended', 'failed', 'deleted')),
  metadata jsonb not null,
  domains text[] not null,
  isolation text not null,
  placement text not null,
  locator text not null check (octet_length(locator) <= 63),
  epoch integer not null default 1,
  maintenance jsonb,
  failure jsonb,
  status_before text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  activated_at timestamptz(3),
  suspended_at timestamptz(3),
  deleted_at timestamptz(3),
  purge_at timestamptz(3),
  purge_started_at timestamptz(3),
  purged_at timestamptz(3),
  schema_version text not null default '',
  held_by uuid,
  cloned_from text,
  last_epoch integer not null default 1
);
create unique index tenants_locator on tenants (placement, isolation, locator);
create index tenants_page on tenants (created_at desc, id desc) where purged_at is null;
create index tenants_status_page on tenants (status, created_at desc, id desc) where purged_at is null;
create index tenants_purge_at on tenants (purge_at) where status = 'deleted' and purged_at is null;
create index tenants_schema_version on tenants (schema_version, id) where status in ('active', 'suspended');

create table tenant_domains (domain text primary key, tenant_id text not null references tenants);
create index tenant_domains_tenant on tenant_domains (tenant_id);

create table placement_logins (
  placement text primary key, login text not null, scope_role text not null, password text);
create table tenant_logins (
  placement text not null, locator text not null, password text not null, primary key (placement, locator));

create table schema_versions (version text primary key, migrations jsonb not null);
create table migration_runs (
  id uuid primary key,
  direction text not null check (direction in ('up', 'down')),
  steps integer check ((direction = 'down') = (steps is not null)),
  scope text not null,
  target text not null,
  state text not null check (state in ('running', 'completed', 'failed', 'cancelled')),
  is_cancelled boolean not null default false,
  retries integer not null,
  lock_timeout_ms integer not null,
  stop_after_failures integer,
  worked_until timestamptz(3) not null,
  created_at timestamptz(3) not null,
  finished_at timestamptz(3)
);
create unique index migration_runs_active on migration_runs ((true)) where state = 'running';
create index migration_runs_newest on migration_runs (created_at desc, id desc);
create table migration_items (
  run_id uuid not null references migration_runs on delete cascade,
  storage text not null,
  tenant_id text,
  isolation text not null,
  placement text not null,
  state text not null default 'pending' check (state in ('pending', 'running', 'done', 'failed', 'skipped')),
  attempts integer not null default 0,
  due_at timestamptz(3) not null default now(),
  worker uuid,
  lease_until timestamptz(3),
  migrations text[],
  error_code text,
  error_message text,
  duration_ms integer,
  primary key (run_id, storage)
);
create index migration_items_pending on migration_items (run_id, attempts, storage) where state = 'pending';
create index migration_items_state on migration_items (run_id, state);
create index migration_items_tenant on migration_items (tenant_id);

create table backups (
  id uuid primary key,
  tenant_id text not null references tenants,
  note text,
  is_scheduled boolean not null,
  isolation text not null,
  archive text,
  is_sealed boolean not null,
  size_bytes bigint,
  sha256 text,
  rows bigint,
  tables integer,
  migrations text[],
  created_at timestamptz(3) not null,
  completed_at timestamptz(3),
  deleted_at timestamptz(3)
);
create index backups_page on backups (tenant_id, created_at desc, id desc);
create index backups_deleted on backups (deleted_at) where deleted_at is not null;
create table transfers (
  id uuid primary key,
  kind text not null check (kind in ('backup', 'restore', 'rehearsal', 'clone', 'move', 'undo')),
  tenant_id text not null references tenants,
  source_id text references tenants check ((kind = 'clone') = (source_id is not null)),
  backup_id uuid check ((kind in ('backup', 'restore', 'rehearsal')) = (backup_id is not null)),
  with_data boolean not null default true,
  isolation text not null,
  placement text not null,
  state text not null default 'pending' check (state in ('pending', 'running', 'completed', 'failed', 'cancelled')),
  phase text not null default 'waiting',
  progress jsonb,
  entered_maintenance boolean not null default false,
  attempts integer not null default 0,
  worker uuid,
  lease_until timestamptz(3) not null default now(),
  compared text check (compared in ('contents', 'counts')),
  failure jsonb,
  created_at timestamptz(3) not null,
  started_at timestamptz(3),
  finished_at timestamptz(3)
);
create unique index transfers_exclusive on transfers (tenant_id)
  where state in ('pending', 'running') and kind in ('restore', 'clone', 'move', 'undo');
create unique index transfers_one_backup on transfers (tenant_id) where state in ('pending', 'running') and kind = 'backup';
create index transfers_page on transfers (tenant_id, created_at desc, id desc);
create index transfers_backup on transfers (backup_id) where backup_id is not null;
create index transfers_finished on transfers (finished_at) where finished_at is not null;
create index transfers_unfinished on transfers (lease_until) where state in ('pending', 'running');
create table storage_locations (
  isolation text not null,
  placement text not null,
  locator text not null,
  epoch integer not null,
  tenant_id text not null references tenants,
  transfer_id uuid,
  state text not null check (state in ('making', 'former', 'abandoned')),
  schema_version text not null default '',
  since timestamptz(3) not null,
  purge_at timestamptz(3) check ((state = 'former') = (purge_at is not null)),
  primary key (placement, isolation, locator)
);
create index storage_locations_tenant on storage_locations (tenant_id, state, since desc);
create index storage_locations_purge_at on storage_locations (purge_at) where purge_at is not null;
create table lost_placements (placement text primary key, lost_at timestamptz(3) not null);

create table installation (
  is_only boolean primary key default true check (is_only),
  id text not null check (id ~ '^[0-9a-z]{6}$')
);

-- auditLogs/0001_audit_logs
create function reject_audit_change() returns trigger language plpgsql as $$
  begin
    raise exception 'audit entries are append-only: % is rejected', tg_op
      using errcode = 'insufficient_privilege', hint = 'Audit entries cannot be changed or removed.';
  end
$$;
create function create_audit_partition(name text, bounds text) returns void language plpgsql as $$
  begin
    execute format('create table multitenancy.%I partition of multitenancy.audit_entries %s', name, bounds);
    execute format('create trigger audit_entries_append_only before update or delete or truncate on multitenancy.%I
      for each statement execute function multitenancy.reject_audit_change()', name);
    execute format('alter table multitenancy.%I enable always trigger audit_entries_append_only', name);
  end
$$;

create table audit_entries (
  id uuid not null,
  tenant_id text,
  action text not null,
  actor_type text not null,
  actor_id text not null,
  actor_name text not null,
  target text not null,
  before jsonb,
  after jsonb,
  request_id text,
  ip text,
  outcome text not null check (outcome in ('success', 'failure')),
  created_at timestamptz(3) not null,
  xact xid8 not null default pg_current_xact_id(),
  mac text,
  primary key (created_at, id)
) partition by range (created_at);
create index audit_entries_xact on audit_entries (xact);
create index audit_entries_tenant_page on audit_entries (tenant_id, created_at desc, id desc);
create trigger audit_entries_append_only before update or delete or truncate on audit_entries
  for each statement execute function reject_audit_change();
alter table audit_entries enable always trigger audit_entries_append_only;
select create_audit_partition('audit_entries_others', 'default');
do $$
declare
  present timestamp := date_trunc('month', now() at time zone 'UTC');
  month timestamp;
begin
  for n in 0..2 loop
    month := present + n * interval '1 month';
    perform create_audit_partition('audit_entries_' || to_char(month, 'YYYYMM'), format('for values from (%s) to (%L)',
      case when n = 0 then 'minvalue' else quote_literal(month at time zone 'UTC') end,
      (month + interval '1 month') at time zone 'UTC'));
  end loop;
end $$;

create table audit_seals (
  tenant_id text collate "C" not null,
  seq bigint not null,
  entry_id uuid not null,
  created_at timestamptz(3) not null,
  digest text not null,
  hash text not null,
  primary key (tenant_id, seq)
);
create unique index audit_seals_entry on audit_seals (entry_id);

create table audit_heads (
  tenant_id text collate "C" primary key,
  seq bigint not null,
  entry_id uuid not null,
  hash text not null,
  mac text not null
);
create table audit_checkpoints (
  tenant_id text collate "C" primary key,
  seq bigint not null,
  hash text not null,
  mac text not null
);
create table audit_state (
  is_only boolean primary key default true check (is_only),
  secret text not null,
  seals bigint not null,
  seals_mac text not null,
  sealed_to xid8,
  sealed_in text,
  kept_from timestamptz(3),
  kept_from_mac text
);

-- billing/0001_billing
create table billing_customers (
  customer_id text collate "C" primary key,
  tenant_id text not null references tenants,
  mapped_at timestamptz(3) not null,
  closed_at timestamptz(3),
  closed_as text check (closed_as in ('deleted', 'detached')),
  check ((closed_at is null) = (closed_as is null))
);
create unique index billing_customers_tenant on billing_customers (tenant_id) where closed_at is null;
create index billing_customers_all on billing_customers (tenant_id);

create table billing_subscriptions (
  id text collate "C" primary key,
  tenant_id text not null references tenants,
  customer_id text collate "C" not null,
  status text not null,
  items jsonb not null,
  period_start timestamptz(3),
  period_end timestamptz(3),
  trial_end timestamptz(3),
  cancel_at_period_end boolean not null,
  cancel_at timestamptz(3),
  ended_at timestamptz(3),
  is_collection_paused boolean not null,
  created_at timestamptz(3) not null,
  as_of timestamptz(3) not null
);
create index billing_subscriptions_tenant on billing_subscriptions (tenant_id);

create table billing_inbox (
  event_id text collate "C" primary key,
  type text not null,
  customer_id text collate "C",
  payload jsonb not null,
  is_live boolean not null,
  created_at timestamptz(3) not null,
  received_at timestamptz(3) not null,
  is_fetched boolean not null default false,
  status text not null default 'waiting' check (status in ('waiting', 'completed', 'ignored', 'failed')),
  attempts int not null default 0,
  error_code text,
  processed_at timestamptz(3),
  published_at timestamptz(3),
  rejected_for text
);
create index billing_inbox_open on billing_inbox (received_at) where status in ('waiting', 'failed');
create index billing_inbox_sent on billing_inbox (received_at) where not is_fetched;
create index billing_inbox_customer on billing_inbox (customer_id);
create index billing_inbox_processed on billing_inbox (processed_at) where processed_at is not null;
create index billing_inbox_rejected on billing_inbox (rejected_for) where rejected_for is not null;

create table billing_dunning (
  subscription_id text collate "C" not null,
  period_end timestamptz(3) not null,
  tenant_id text not null references tenants,
  invoices jsonb not null,
  state text not null
    check (state in ('retrying', 'grace', 'downgraded', 'suspended', 'recovered', 'ended')),
  grace_until timestamptz(3),
  suspended_at timestamptz(3),
  is_suspension_due boolean not null default false,
  opened_at timestamptz(3) not null,
  closed_at timestamptz(3),
  primary key (subscription_id, period_end)
);
create index billing_dunning_tenant on billing_dunning (tenant_id);
create index billing_dunning_due on billing_dunning (grace_until) where state = 'grace';

create table billing_usage (
  id uuid primary key,
  tenant_id text not null references tenants,
  meter text not null,
  quantity bigint not null,
  used_at timestamptz(3) not null,
  first_sent_at timestamptz(3),
  unanswered int not null default 0,
  sent_at timestamptz(3),
  error_code text,
  attempts int not null default 0,
  next_attempt_at timestamptz(3),
  held_at timestamptz(3)
);
create index billing_usage_open on billing_usage (next_attempt_at) where sent_at is null;
create index billing_usage_sent on billing_usage (sent_at) where sent_at is not null;
create index billing_usage_tenant on billing_usage (tenant_id, sent_at);
create table billing_usage_watermarks (
  tenant_id text not null references tenants,
  quota text collate "C" not null,
  day date not null,
  store text collate "C" not null,
  counted bigint not null,
  primary key (tenant_id, quota, day, store)
);
create table billing_metered_quotas (
  quota text collate "C" primary key,
  since timestamptz(3) not null
);

create table billing_health (
  is_only boolean primary key default true check (is_only),
  measured_at timestamptz(3) not null,
  duration_ms int,
  error_code text
);

-- branding/0001_branding
create table branding (
  tenant_id text primary key references tenants,
  display_name text,
  logo_url text,
  favicon_url text,
  primary_color text,
  accent_color text,
  support_email text,
  support_url text,
  from_name text,
  from_email text,
  custom_css text,
  updated_at timestamptz(3) not null
);

-- featureFlags/0001_feature_flags
create table feature_flags (
  id uuid primary key,
  tenant_id text not null references tenants,
  key text collate "C" not null,
  enabled boolean not null,
  rollout_percent smallint check (rollout_percent between 0 and 100),
  bucket_key text,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  unique (tenant_id, key)
);

-- impersonation/0001_impersonations
create table impersonations (
  id uuid primary key,
  tenant_id text not null references tenants,
  user_id text not null,
  actor_type text not null,
  actor_id text not null,
  actor_name text not null,
  reason text not null,
  token_hash text collate "C" not null unique,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  ended_at timestamptz(3)
);
create index impersonations_page on impersonations (tenant_id, created_at desc, id desc);

-- metrics/0001_metrics
-- The value of each sum of the store at its last flush. A sum that the store has lost starts again as another incarnation, in
-- its own row: the value of a day is the sum of its rows. No foreign key: it would lock the tenant at each new row. Code that
-- writes checks that the tenant exists.
create table metric_sums (
  day date not null,
  tenant_id text collate "C" not null,
  key text collate "C" not null,
  incarnation uuid not null,
  value bigint not null,
  primary key (day, tenant_id, key, incarnation)
) with (fillfactor = 70);
create index metric_sums_of_tenant on metric_sums (tenant_id, day, key);

-- quotas/0001_quotas
-- Published events of each quota and day, so that each is published once. The counters are in the store.
create table quota_alerts (
  day date not null,
  tenant_id text collate "C" not null references tenants,
  quota text collate "C" not null,
  kind text not null,
  primary key (day, tenant_id, quota, kind)
);
create index quota_alerts_tenant_id on quota_alerts (tenant_id);

-- sso/0001_sso
create table sso (
  tenant_id text primary key references tenants,
  issuer text,
  client_id text,
  client_secret text,
  scopes text[] not null,
  redirect_uri text,
  allowed_domains text[] not null,
  enabled boolean not null,
  enforced boolean not null,
  version integer not null,
  updated_at timestamptz(3) not null,
  check (not enabled or (issuer is not null and client_id is not null and redirect_uri is not null)),
  check (enabled or not enforced)
);

-- webhooks/0001_webhooks
      create table webhook_subscriptions (
        id uuid primary key,
        tenant_id text collate "C" references tenants,
        url text not null,
        events text[] not null,
        description text,
        enabled boolean not null,
        disabled_reason text,
        secret text not null,
        previous_secret text,
        previous_until timestamptz(3),
        failing_since timestamptz(3),
        generation int not null default 0,
        listening_until timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        deleted_at timestamptz(3)
      );
      create index webhook_subscriptions_of_tenant on webhook_subscriptions (tenant_id, id);

      create table webhook_messages (
        id uuid primary key,
        tenant_id text collate "C",
        event text not null,
        body text not null,
        created_at timestamptz(3) not null
      ) partition by range (id);

      create table webhook_deliveries (
        id uuid primary key,
        message_id uuid not null,
        webhook_id uuid not null,
        tenant_id text collate "C",
        partition_key text collate "C" not null,
        event text not null,
        state text not null check (state in ('pending', 'delivering', 'retry_scheduled', 'delivered', 'failed')),
        is_ready boolean not null,
        due_at timestamptz(3),
        claim uuid,
        attempt_count int not null default 0,
        budget_start int not null default 0,
        last_status int,
        last_error text,
        created_at timestamptz(3) not null,
        delivered_at timestamptz(3)
      ) partition by range (id);
      create index webhook_deliveries_newest on webhook_deliveries (webhook_id, id);
      create index webhook_deliveries_failed on webhook_deliveries (webhook_id, id) where state = 'failed';
      create index webhook_deliveries_ready
        on webhook_deliveries (partition_key, webhook_id, coalesce(tenant_id, '-'), due_at) where is_ready;
      create index webhook_deliveries_later on webhook_deliveries (state, due_at) where due_at is not null and not is_ready;
      create index webhook_deliveries_retries on webhook_deliveries (coalesce(tenant_id, '-'), due_at)
        where state = 'retry_scheduled' and not is_ready;

      create table webhook_attempts (
        delivery_id uuid not null,
        number int not null,
        tenant_id text collate "C",
        started_at timestamptz(3) not null,
        duration_ms int not null,
        status int,
        error text,
        address text,
        request_headers json not null,
        response_headers json,
        response_body text,
        primary key (delivery_id, number)
      ) partition by range (delivery_id);
      create index webhook_attempts_newest on webhook_attempts (tenant_id, started_at);

      create table webhook_counters (
        tenant_id text collate "C",
        since timestamptz(0) not null,
        delivered bigint not null,
        failed bigint not null
      );
      create unique index webhook_counters_key on webhook_counters (coalesce(tenant_id, '-'), since);

      create table webhook_messages_others partition of webhook_messages default;
      create table webhook_deliveries_others partition of webhook_deliveries default;
      create table webhook_attempts_others partition of webhook_attempts default;

      create function webhook_id_floor(at timestamptz) returns uuid language sql immutable strict as $$
        select (left(digits, 8) || '-' || right(digits, 4) || '-0000-0000-000000000000')::uuid
        from lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') digits
      $$;
      do $$
      declare
        first_at timestamptz := date_trunc('day', now() at time zone 'UTC') at time zone 'UTC';
        kind text;
      begin
        foreach kind in array array['messages', 'deliveries', 'attempts'] loop
          for n in 0..2 loop
            execute format('create table webhook_%s_%s partition of webhook_%s for values from (%L) to (%L)',
              kind, to_char((first_at + n * interval '10 days') at time zone 'UTC', 'YYYYMMDD'), kind,
              webhook_id_floor(first_at + n * interval '10 days'),
              webhook_id_floor(first_at + (n + 1) * interval '10 days'));
          end loop;
        end loop;
      end $$;

create function webhook_deliveries_in_flight(now_at timestamptz) returns jsonb language sql set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set search_path = multitenancy, pg_temp as $$
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


create function dispatch_webhooks(
  shift_ms double precision, message_ids uuid[], tenants text[], events text[], patterns text[], bodies text[],
  created double precision[], kinds text[], only_for uuid[],
  claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int, slow_webhooks uuid[] default '{}')
returns table (
  place bigint, rejected text, id uuid, is_claimed boolean, needs_wakeup boolean, webhook_id uuid, partition_key text,
  url text, secret text, previous_secret text, previous_until timestamptz, generation int)
language plpgsql set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set search_path = multitenancy, pg_temp as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp() + shift_ms * interval '1 millisecond';
  -- A claim that runs now takes the deliveries that are left ready.
  holds_claim_lock boolean := wanted > 0 and pg_try_advisory_xact_lock(7367228006);
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
      s.id as webhook_id, s.url, s.secret, s.previous_secret, s.previous_until, s.generation,
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
  ), message as (
    insert into webhook_messages (id, tenant_id, event, body, created_at)
    select distinct on (message_id) message_id, tenant_id, event, body, created_at from matched
  ), delivery as (
    insert into webhook_deliveries
      (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, due_at, claim, created_at)
    select id, message_id, webhook_id, tenant_id, partition_key, event, case when is_claimed then 'delivering' else 'pending' end,
      not is_claimed, case when is_claimed then now_at + lease_ms * interval '1 millisecond' else now_at end,
      case when is_claimed then claim_id end, created_at
    from judged
  ), notified as (
    select pg_notify('multitenancy_webhooks', '') from judged where not is_claimed and (wanted = 0 or not has_waiting) limit 1
  )
  select place, case when status is null or purged_at is not null then 'none' else status end,
    null::uuid, null::boolean, null::boolean, null::uuid, null::text, null::text, null::text, null::text, null::timestamptz, null::int
  from requested where status is null or status = 'deleted' or purged_at is not null
  union all
  select place, null, id, is_claimed, not holds_claim_lock or not has_waiting, webhook_id, partition_key, url, secret, previous_secret, previous_until, generation
  from judged left join notified on true;
end $$;


create function fail_webhook_deliveries(of_partition text, of_webhook uuid, why text, now_at timestamptz, at_most int)
returns int language plpgsql set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set search_path = multitenancy, pg_temp as $$
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

create function claim_webhook_deliveries(
  shift_ms double precision, claim_id uuid, wanted int, lease_ms double precision, per_webhook int, per_tenant int,
  wanted_failing int, turns jsonb, only_webhook uuid, slow_webhooks uuid[] default '{}')
returns table (
  id uuid, webhook_id uuid, tenant_id text, partition_key text, event text, attempt_count int, budget_start int, created_at timestamptz,
  message_id uuid, bytes int, is_failing boolean, url text, secret text, previous_secret text, previous_until timestamptz,
  next_due_ms double precision, next_turns jsonb, is_more boolean, full_ones text[])
language plpgsql set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set search_path = multitenancy, pg_temp set lock_timeout = '5s' as $$
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
  perform pg_advisory_xact_lock(7367228006);
  now_at := clock_timestamp() + shift_ms * interval '1 millisecond';

  update webhook_deliveries d set is_ready = true
  from (select id from webhook_deliveries where state = 'delivering' and not is_ready and due_at <= now_at
    order by due_at limit 1000 for update skip locked) due
  where d.id = due.id;
  update webhook_deliveries d set is_ready = true
  from (select id from webhook_deliveries where state = 'retry_scheduled' and not is_ready and due_at <= now_at
    order by due_at limit 1000 for update skip locked) due
  where d.id = due.id;
  get diagnostics fallen_due = row_count;
  if fallen_due = 1000 then
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

    waiting := array(with recursive keys as (
      (select webhook_id as key from webhook_deliveries where is_ready and partition_key = at_partition and webhook_id > '00000000-0000-0000-0000-000000000000' order by 1 limit 1)
      union all
      select next.key from keys cross join lateral (
        select webhook_id as key from webhook_deliveries
        where is_ready and partition_key = at_partition and webhook_id > keys.key order by 1 limit 1) next
    ) select key from keys
      limit 200);
    if cardinality(waiting) = 200 then
      drawn := gen_random_uuid();
      waiting := array(with recursive keys as (
      (select webhook_id as key from webhook_deliveries where is_ready and partition_key = at_partition and webhook_id > drawn order by 1 limit 1)
      union all
      select next.key from keys cross join lateral (
        select webhook_id as key from webhook_deliveries
        where is_ready and partition_key = at_partition and webhook_id > keys.key order by 1 limit 1) next
    ) select key from keys limit 200) || waiting;
      waiting := array(select webhook from unnest(waiting) with ordinality as w(webhook, place)
        group by webhook order by min(place) limit 200);
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
          now_at, 1000) = 1000 then more := true; end if;
        continue;
      end if;
      continue when case when only_webhook is null then subscription.listening_until is not null
        else of_webhook <> only_webhook end;
      in_flight := coalesce((busy ->> ('webhook ' || of_webhook))::int, 0);
      free := case when subscription.failing_since is null then per_webhook else least(per_webhook, 2) end - in_flight;
      if (subscription.failing_since is not null or of_webhook = any(slow_webhooks)) and failing_left < least(free, share) then
        full_ones := full_ones || 'failing'::text;
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
          with recursive keys as (
      (select coalesce(tenant_id, '-') as key from webhook_deliveries where is_ready and partition_key = '-' and webhook_id = of_webhook and coalesce(tenant_id, '-') > after_tenant order by 1 limit 1)
      union all
      select next.key from keys cross join lateral (
        select coalesce(tenant_id, '-') as key from webhook_deliveries
        where is_ready and partition_key = '-' and webhook_id = of_webhook and coalesce(tenant_id, '-') > keys.key order by 1 limit 1) next
    ) select key from keys limit share);
        if cardinality(tenants) < share then
          tenants := tenants || array(select key from (
            with recursive keys as (
      (select coalesce(tenant_id, '-') as key from webhook_deliveries where is_ready and partition_key = '-' and webhook_id = of_webhook and coalesce(tenant_id, '-') > '' order by 1 limit 1)
      union all
      select next.key from keys cross join lateral (
        select coalesce(tenant_id, '-') as key from webhook_deliveries
        where is_ready and partition_key = '-' and webhook_id = of_webhook and coalesce(tenant_id, '-') > keys.key order by 1 limit 1) next
    ) select key from keys) those
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
      if (subscription.failing_since is not null or of_webhook = any(slow_webhooks)) then failing_left := failing_left - taken_of_webhook; end if;
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


create function settle_webhook_deliveries(
  shift_ms double precision, ids uuid[], claims uuid[], states text[], delays_ms double precision[], statuses int[],
  errors text[], blamed boolean[], started double precision[], durations_ms int[], addresses text[],
  request_headers text[], response_headers text[], response_bodies text[])
returns table (lost uuid[], failing_webhooks uuid[], failing_since timestamptz[]) language plpgsql set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set search_path = multitenancy, pg_temp set lock_timeout = '5s' as $$
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
