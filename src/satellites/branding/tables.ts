import type { Migration } from '../../kernel/database/migrations.ts'
import type { BrandingSettings } from './settings.ts'

export interface BrandingTables {
  branding: BrandingSettings & { tenantId: string; updatedAt: Date }
}

export const tables: readonly Migration[] = [
  {
    name: '0001_branding',
    up: `
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
    `,
  },
]
