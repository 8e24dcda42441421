import type { Migration } from '../../kernel/database/migrations.ts'

export interface QuotaTables {
  quotaAlerts: { day: string; tenantId: string; quota: string; kind: string; raisedAt: Date | null }
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
  {
    name: '0002_quota_usage',
    up: `
      -- High usage for rankings, as of \`noted_at\` by the clock of the store. Without a day it is a gauge. \`plan\` ranks if the host
      -- decides plans.
      create table quota_usage (
        tenant_id text collate "C" not null references tenants,
        quota text collate "C" not null,
        used double precision not null,
        day date,
        plan text not null,
        noted_at timestamptz(3) not null,
        primary key (tenant_id, quota)
      ) with (fillfactor = 70);
    `,
  },
  { name: '0003_quota_alert_times', up: 'alter table quota_alerts add raised_at timestamptz(3);' },
]
