import type { Migration } from '../../kernel/database/migrations.ts'

export interface SettingRow {
  readonly tenantId: string
  readonly name: string
  /** JSON; null for a secret. */
  readonly value: string | null
  /** JSON, encrypted and bound to tenant and name; null unless it is a secret. */
  readonly secret: string | null
  readonly updatedAt: Date
}

export interface SettingTables {
  settings: SettingRow
}

export const tables: readonly Migration[] = [
  {
    name: '0001_settings',
    up: `
      create table settings (
        tenant_id text not null references tenants,
        name text collate "C" not null,
        value text,
        secret text,
        updated_at timestamptz(3) not null,
        primary key (tenant_id, name),
        check ((value is null) <> (secret is null))
      );
    `,
  },
]
