-- made by `npm run generate`: every migration of the backoffice, in order; all of it in the schema multitenancy

-- kernel/0001_idempotency_keys
create table idempotency_keys (
  scope text primary key,
  request_hash text not null,
  lease uuid not null,
  leased_until timestamptz not null,
  answer text,
  expires_at timestamptz not null
);
create index idempotency_keys_expiry on idempotency_keys (expires_at);

-- store/0001_store
create table store (
  owner text collate "C" not null,
  key text collate "C" not null,
  value text not null,
  expires_at timestamptz,
  primary key (owner, key)
);
create index store_expires_at on store (expires_at) where expires_at is not null;

-- store/0002_store_counters
create table store_counters (
  day date not null,
  tenant_id text collate "C" not null,
  name text collate "C" not null,
  count bigint not null,
  ceiling bigint not null,
  primary key (day, tenant_id, name)
) with (fillfactor = 50);
comment on column store_counters.ceiling is
  'what a row that is proposed may count at most: "on conflict" sees nothing of it but its columns';

create table store_standing (
  tenant_id text collate "C" not null,
  name text collate "C" not null,
  value float8 not null,
  primary key (tenant_id, name)
);

create function take_counters(
  offset_ms float8,
  -- One each for a counter: what is asked of it in all, and how far that may take it (-1: decide one by one).
  owners text[], names text[], totals bigint[], ceilings bigint[],
  -- One each for what a caller wants of a counter; those of a caller stand together. A limit of -1 is none.
  callers int[], wanted int[], amounts bigint[], limits bigint[],
  out now_ms float8, out counts_before text, out verdicts text
)
language plpgsql
-- A plan is kept for long, and the table may have been small when it was made.
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
  said int[];
  first int := 1;
  last int;
begin
  now_ms := extract(epoch from moment) * 1000;

  with proposed as (
    insert into multitenancy.store_counters as kept (day, tenant_id, name, count, ceiling)
    select today, tenant_id, name, case when total <= ceiling then total else 0 end, ceiling
    from unnest(owners, names, totals, ceilings) with ordinality as asked (tenant_id, name, total, ceiling, place)
    where total > 0 order by place
    on conflict (day, tenant_id, name) do update set count = kept.count + excluded.count
      where excluded.count > 0 and kept.count + excluded.count <= excluded.ceiling
    returning tenant_id, name, count
  )
  select array_agg(proposed.count order by place) into added
  from unnest(owners, names) with ordinality as asked (tenant_id, name, place)
  left join proposed using (tenant_id, name);

  if array_position(added, null) is null and array_position(added, 0) is null then
    select string_agg((after - total)::text, ',' order by place) into counts_before
    from unnest(added, totals) with ordinality as sums (after, total, place);
    return;
  end if;

  select array_agg(case when after > 0 then after - total else coalesce((
    select kept.count from multitenancy.store_counters as kept
    where kept.day = today and kept.tenant_id = asked.tenant_id and kept.name = asked.name), 0) end order by place)
  into before
  from unnest(owners, names, totals, added) with ordinality as asked (tenant_id, name, total, after, place);
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
    said[callers[first]] := verdict;
    first := last + 1;
  end loop;
  verdicts := array_to_string(said, ',');

  for place in 1..array_length(owners, 1) loop
    if coalesce(added[place], 0) = 0 and counts[place] > before[place] then
      update multitenancy.store_counters set count = counts[place]
      where day = today and tenant_id = owners[place] and name = names[place];
    end if;
  end loop;
end
$function$;

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
  purged_at timestamptz(3)
);
create unique index tenants_locator on tenants (placement, isolation, locator);
create index tenants_page on tenants (created_at desc, id desc) where purged_at is null;
create index tenants_status_page on tenants (status, created_at desc, id desc) where purged_at is null;
create index tenants_purge_at on tenants (purge_at) where status = 'deleted' and purged_at is null;
create table tenant_domains (domain text primary key, tenant_id text not null references tenants);
create index tenant_domains_tenant on tenant_domains (tenant_id);
create table placement_logins (
  placement text primary key, login text not null, scope_role text not null, password text);

-- tenants/0002_migration_runs
alter table tenants add schema_version text not null default '';
create index tenants_schema_version on tenants (schema_version, id) where status in ('active', 'suspended');
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

-- tenants/0003_transfers
alter table tenants add held_by uuid, add cloned_from text, add last_epoch integer not null default 1;
update tenants set last_epoch = epoch;
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
create unique index transfers_alone on transfers (tenant_id)
  where state in ('pending', 'running') and kind in ('restore', 'clone', 'move', 'undo');
create unique index transfers_one_backup on transfers (tenant_id) where state in ('pending', 'running') and kind = 'backup';
create index transfers_page on transfers (tenant_id, created_at desc, id desc);
create index transfers_backup on transfers (backup_id) where backup_id is not null;
create index transfers_finished on transfers (finished_at) where finished_at is not null;
create index transfers_unfinished on transfers (lease_until) where state in ('pending', 'running');
create table places (
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
create index places_tenant on places (tenant_id, state, since desc);
create index places_purge_at on places (purge_at) where purge_at is not null;
create table lost_placements (placement text primary key, lost_at timestamptz(3) not null);

-- tenants/0004_installation
create table installation (
  is_alone boolean primary key default true check (is_alone),
  id text not null check (id ~ '^[0-9a-z]{6}$')
);

-- auditLogs/0001_audit_entries
create table audit_entries (
  id uuid primary key,
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
  created_at timestamptz(3) not null
);
create index audit_entries_page on audit_entries (created_at desc, id desc);
create index audit_entries_tenant_page on audit_entries (tenant_id, created_at desc, id desc);

create function refuse_audit_change() returns trigger language plpgsql as $$
  begin
    raise exception 'audit entries are append-only: % is refused', tg_op
      using errcode = 'insufficient_privilege', hint = 'Entries are added, and never changed or removed.';
  end
$$;
create trigger audit_entries_append_only before update or delete or truncate on audit_entries
  for each statement execute function refuse_audit_change();
alter table audit_entries enable always trigger audit_entries_append_only;

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

-- quotas/0001_quotas
-- What has been said of a quota on a day, so that it is said once. The counters are in the store.
create table quota_alerts (
  day date not null,
  tenant_id text collate "C" not null references tenants,
  quota text collate "C" not null,
  kind text not null,
  primary key (day, tenant_id, quota, kind)
);
create index quota_alerts_tenant_id on quota_alerts (tenant_id);
