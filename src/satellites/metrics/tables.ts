import type { Migration } from '../../kernel/database/migrations.ts'

export const tables: readonly Migration[] = [
  {
    name: '0001_metrics',
    up: `
      -- What a sum of the store had come to when it was last flushed. A sum that the store has lost begins anew under another
      -- incarnation, in a row of its own: the value of a day is the sum over its rows. No foreign key: it would lock the tenant at
      -- each new row; whoever writes looks that there is a tenant.
      create table metric_sums (
        day date not null,
        tenant_id text collate "C" not null,
        key text collate "C" not null,
        incarnation uuid not null,
        value bigint not null,
        primary key (day, tenant_id, key, incarnation)
      ) with (fillfactor = 70);
      create index metric_sums_of_tenant on metric_sums (tenant_id, day, key);
    `,
  },
]
