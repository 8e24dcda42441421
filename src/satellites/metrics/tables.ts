import type { Migration } from '../../kernel/database/migrations.ts'

export const tables: readonly Migration[] = [
  {
    name: '0001_metrics',
    up: `
      -- The value of each sum of the store at its last flush. A sum that the store has lost starts again as another incarnation, in
      -- its own row: the value of a day is the sum of its rows. No foreign key: it would lock the tenant at each new row. Code that
      -- writes checks that the tenant exists.
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
