/**
 * The table of adoptions: a row exists before the server is changed, and until the tenant is purged or released.
 *
 *   adopting ──server committed──► adopted ──release──► releasing ──► (no row)
 *      └──server unchanged──► (no row)
 *
 * During `adopting`, an empty row of `tenants` reserves the id and the locator, as that of a purged tenant does.
 */
import type { Migration } from '../../kernel/database/migrations.ts'

export interface AdoptionRow {
  tenantId: string
  /** Also in the record at the server. */
  adoptionId: string
  isolation: string
  placement: string
  locator: string
  state: 'adopting' | 'adopted' | 'releasing'
  name: string
  metadata: Record<string, unknown>
  /** Names of the migrations whose result the storage has. */
  migrations: string[]
  digest: string
  /** Whether a released tenant had the id before. */
  wasReleased: boolean
  leaseUntil: Date
  createdAt: Date
}

/** An adoption of the tables that the tenants of a placement share. Its tenants are in `row_adoption_tenants` until they are active. */
export interface RowAdoptionRow {
  readonly adoptionId: string
  readonly isolation: string
  readonly placement: string
  /** The schema of the tables. */
  readonly storage: string
  readonly state: 'adopting' | 'adopted' | 'releasing'
  /** Of each tenant. */
  readonly metadata: Record<string, unknown>
  readonly migrations: readonly string[]
  readonly digest: string
}

export const ADOPTIONS: readonly Migration[] = [
  {
    name: '0001_adoptions',
    up: `
      create table adoptions (
        tenant_id text primary key,
        adoption_id uuid not null unique,
        isolation text not null,
        placement text not null,
        locator text not null,
        state text not null check (state in ('adopting', 'adopted', 'releasing')),
        name text not null,
        metadata jsonb not null,
        migrations text[] not null,
        digest text not null,
        was_released boolean not null,
        lease_until timestamptz(3) not null,
        created_at timestamptz(3) not null default now()
      );
      create index adoptions_unfinished on adoptions (lease_until) where state = 'adopting';
    `,
  },
  {
    name: '0002_row_adoptions',
    up: `
      create table row_adoptions (
        adoption_id uuid primary key,
        isolation text not null,
        placement text not null,
        storage text not null,
        state text not null check (state in ('adopting', 'adopted', 'releasing')),
        metadata jsonb not null,
        migrations text[] not null,
        digest text not null,
        lease_until timestamptz(3) not null,
        created_at timestamptz(3) not null default now(),
        unique (isolation, placement)
      );
      create table row_adoption_tenants (
        tenant_id text primary key,
        adoption_id uuid not null,
        name text not null,
        was_released boolean not null
      );
      create index row_adoption_tenants_of on row_adoption_tenants (adoption_id);
    `,
  },
]
