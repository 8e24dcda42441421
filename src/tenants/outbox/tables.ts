/** Tables of the outbox in the backoffice. */
import type { Migration } from '../../kernel/database/migrations.ts'

/**
 * - `outbox_received`: ids of applied entries. An entry that appears again, after a killed relay or a restored server,
 *   is not applied again.
 * - `outbox_failed`: entries that could not be applied, with the context in which a retry applies them. `is_old`: may
 *   have been applied long ago.
 * - `outbox_marks`: databases of tenants (database-pg) that may have entries; see marks.ts.
 */
export const tables: readonly Migration[] = [
  {
    name: '0001_outbox',
    up: `
      create table outbox_received (
        id uuid not null, tenant_id text not null, posted_at timestamptz(3) not null, primary key (id, tenant_id));
      create index outbox_received_posted on outbox_received using brin (posted_at);

      create table outbox_failed (
        id uuid not null, tenant_id text not null, kind text not null, payload text not null, context text not null,
        posted_at timestamptz(3) not null, failed_at timestamptz(3) not null, error text not null,
        is_old boolean not null default false, primary key (id, tenant_id));

      create sequence outbox_mark_versions;
      create table outbox_marks (
        placement text not null, locator text not null, tenant_id text not null, isolation text not null,
        epoch int not null, version bigint not null default nextval('multitenancy.outbox_mark_versions'),
        primary key (placement, locator));
    `,
  },
]
