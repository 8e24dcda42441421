import type { Migration } from '../../kernel/database/migrations.ts'

export interface QuotaTables {
  quotaAlerts: { day: string; tenantId: string; quota: string; kind: string }
}

export const tables: readonly Migration[] = [
  {
    name: '0001_quotas',
    up: `
      -- Published events of each quota and day, so that each is published once. The counters are in the store.
      create table quota_alerts (
        day date not null,
        tenant_id text collate "C" not null references tenants,
        quota text collate "C" not null,
        kind text not null,
        primary key (day, tenant_id, quota, kind)
      );
      create index quota_alerts_tenant_id on quota_alerts (tenant_id);
    `,
  },
]
