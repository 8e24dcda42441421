import type { Migration } from '../../../kernel/database/migrations.ts'

export interface FlagRow {
  id: string
  tenantId: string
  key: string
  enabled: boolean
  rolloutPercent: number | null
  bucketKey: string | null
  createdAt: Date
  updatedAt: Date
}

export interface FlagTables {
  featureFlags: FlagRow
}

export const tables: readonly Migration[] = [
  {
    name: '0001_feature_flags',
    up: `
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
    `,
  },
  {
    // With the members that counts need, so that they read the index only.
    name: '0002_feature_flags_of_all',
    up: [
      'drop index concurrently if exists feature_flags_of_all',
      'create index concurrently feature_flags_of_all on feature_flags (key, tenant_id) include (enabled, rollout_percent)',
    ],
  },
]
