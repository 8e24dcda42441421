/** Tables of tenants that have grown: a backup of before has to be brought up to date. */
import type { TenantMigration } from '../migrations.ts'

const ALL: readonly TenantMigration[] = [
  {
    name: '0001_notes',
    checksum: '1',
    up: `create table notes (
        tenant_id text not null default tenantry.current_tenant(), id bigint generated always as identity,
        text text not null, primary key (tenant_id, id));
      create index notes_text on notes (tenant_id, text)`,
    down: 'drop table notes',
  },
  {
    name: '0002_stars',
    checksum: '2',
    up: 'alter table notes add stars integer not null default 0',
    down: 'alter table notes drop stars',
  },
]

export const migrationsOf = (version: 'first' | 'all'): readonly TenantMigration[] =>
  version === 'first' ? ALL.slice(0, 1) : ALL
