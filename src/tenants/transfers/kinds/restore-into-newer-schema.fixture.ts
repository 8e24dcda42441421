/** Tenant tables before and after a migration. */
import { NOTES } from '../../../../test/support/two-servers.ts'
import type { TenantMigration } from '../../isolation/migrations.ts'

const GROWN: readonly TenantMigration[] = [
  ...NOTES,
  {
    name: '0002_stars',
    checksum: '2',
    up: 'alter table notes add stars integer not null default 0',
    down: 'alter table notes drop stars',
  },
]

export const migrationsOf = (version: 'first' | 'all'): readonly TenantMigration[] =>
  version === 'first' ? NOTES : GROWN
