/** Migrations of a host that adopts schemas with the table of the first one. */
import type { TenantMigration } from '../isolation/migrations.ts'

export const NOTES: TenantMigration = {
  name: '0001_notes',
  checksum: '1',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int not null, body text, primary key (tenant_id, id))`,
}
export const TAGS: TenantMigration = {
  name: '0002_tags',
  checksum: '2',
  up: 'create table tags (tenant_id text not null default tenantry.current_tenant(), tag text not null, primary key (tenant_id, tag))',
  down: 'drop table tags',
}
