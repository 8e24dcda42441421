/**
 * Tables of tenants, migrations and transfers.
 *
 * - `tenants` is the registry and the directory of storage: `isolation`, `placement` and `locator` are the storage
 *   location of a tenant, `epoch` is incremented when it changes. A purged tenant keeps an empty row, so that its id is
 *   not reused.
 * - Applied migrations are recorded in each storage. `tenants.schema_version` is the last known version, so that
 *   pending migrations are one query. It is written after a migration and cleared before a rollback: it is never ahead
 *   of the storage.
 */
import type { ColumnType } from 'kysely'
import type { Migration } from '../../kernel/database/migrations.ts'
import type { ItemState, MigrationRun } from '../migrations/model/run.ts'
import type { BackupRow, PlaceRow, TransferRow } from '../transfers/model/tables.ts'
import type { Status } from './lifecycle.ts'
import { LIST_INDEXES } from './list-indexes.ts'
import type { AppliedMigration } from './schema-version.ts'

export interface TenantRow {
  id: string
  name: string
  status: Status
  metadata: Record<string, unknown>
  domains: string[]
  isolation: string
  placement: string
  locator: string
  epoch: number
  maintenance: { message: string | null; retryAfterSeconds: number; since: string } | null
  failure: { code: string; message: string } | null
  statusBefore: Status | null
  createdAt: Date
  updatedAt: Date
  activatedAt: Date | null
  suspendedAt: Date | null
  deletedAt: Date | null
  purgeAt: Date | null
  purgeStartedAt: Date | null
  purgedAt: Date | null
  /** The transfer that keeps its storage closed. */
  heldBy: string | null
  /** The source of a pending clone; null after the clone. */
  clonedFrom: string | null
  /** The highest epoch ever given to this tenant, used or not. Only in results of queries that select it. */
  lastEpoch?: number
  /** A row of `schema_versions`; empty: unknown. Only in results of queries that select it. */
  schemaVersion?: string
}

export interface MigrationItemRow {
  runId: string
  /** For separate storage the id of the tenant; for shared tables `isolation/placement`. */
  storage: string
  tenantId: string | null
  isolation: string
  placement: string
  state: ItemState
  attempts: number
  dueAt: Date
  worker: string | null
  leaseUntil: Date | null
  migrations: string[] | null
  errorCode: string | null
  errorMessage: string | null
  durationMs: number | null
}

export interface TenantTables {
  tenants: TenantRow
  schemaVersions: { version: string; migrations: ColumnType<AppliedMigration[], string, never> }
  migrationRuns: MigrationRun & { workedUntil: Date }
  migrationItems: MigrationItemRow
  tenantDomains: { domain: string; tenantId: string }
  backups: BackupRow
  transfers: TransferRow
  storageLocations: PlaceRow
  placementLogins: { placement: string; login: string; scopeRole: string; password: string | null }
  tenantLogins: { placement: string; locator: string; password: string }
}

/** Creates the indexes of searches, if the extension exists. Outside of a transaction: it reads all tenants, and they may change meanwhile. */
export const SEARCH_INDEXES: readonly string[] = [
  `select unnest(array[
     format('drop index concurrently if exists multitenancy.tenants_%s', name),
     format('create index concurrently tenants_%1$s on multitenancy.tenants
       using gin (multitenancy.search_%2$s(id, name, domains) %3$s.gin_trgm_ops)
       with (gin_pending_list_limit = 256) where purged_at is null', name, function, extnamespace::regnamespace)]) as statement
   from pg_extension, (values ('search', 'text'), ('starts', 'starts')) index (name, function) where extname = 'pg_trgm'`,
  'analyze multitenancy.tenants',
]

export const tables: readonly Migration[] = [
  {
    name: '0001_tenants',
    up: `
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
    `,
  },
  {
    name: '0002_search',
    up: `
      -- Each value follows a line break, so that a pattern can match the beginning of one.
      create function search_text(id text, name text, domains text[]) returns text language plpgsql immutable parallel safe as $$
      begin
        return lower(E'\\n' || id || E'\\n' || name || E'\\n' || array_to_string(domains, E'\\n'));
      end $$;
      -- The first character and the first two of each value.
      create function search_starts(id text, name text, domains text[]) returns text language plpgsql immutable parallel safe as $$
      declare
        value text;
        starts text := E'\\n';
      begin
        foreach value in array array[id, name] || domains loop
          starts := starts || left(value, 1) || E'\\n' || left(value, 2) || E'\\n';
        end loop;
        return lower(starts);
      end $$;
      -- The planner compares a term with as many values, to choose between the index and the order of the page.
      create statistics tenants_search_terms on (search_text(id, name, domains)) from tenants;
      alter statistics tenants_search_terms set statistics 1000;
      create statistics tenants_search_starts on (search_starts(id, name, domains)) from tenants;
      alter statistics tenants_search_starts set statistics 1000;
      do $$
      begin
        create extension if not exists pg_trgm with schema multitenancy;
      exception when others then
        raise notice 'a search reads all tenants, without the indexes of searches: %', sqlerrm;
      end $$;
    `,
  },
  { name: '0003_search_index', up: SEARCH_INDEXES },
  {
    // The last change of phase or progress.
    name: '0004_attention',
    up: 'alter table transfers add progressed_at timestamptz(3)',
  },
  { name: '0005_list_indexes', up: LIST_INDEXES },
  {
    name: '0006_background_runs',
    up: `
      alter table migration_runs
        add is_background boolean not null default false, add actor jsonb, add request_id text, add counts jsonb;
    `,
  },
]
