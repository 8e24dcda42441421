/**
 * `tenants` is the registry and, at the same time, the directory of storage: `isolation`, `placement` and `locator` say where
 * a tenant's rows live, `epoch` rises whenever that changes. A purged tenant keeps its row, emptied, so that its id is never
 * given again.
 */
import type { Migration } from '../kernel/migrations.ts'
import type { Status } from './lifecycle.ts'

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
}

export interface TenantTables {
  tenants: TenantRow
  tenantDomains: { domain: string; tenantId: string }
  placementLogins: { placement: string; login: string; scopeRole: string; password: string | null }
}

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
    `,
  },
]
