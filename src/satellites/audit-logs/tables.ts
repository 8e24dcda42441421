/**
 * `audit_entries` only grows. A trigger refuses UPDATE, DELETE and TRUNCATE, whoever asks, the table's owner and superusers
 * included, also under `session_replication_role = replica`, and before a row is looked at.
 *
 * What it cannot refuse: the owner of the table or schema, and a superuser, can drop or disable the trigger, replace its
 * function, rewrite or drop the table, and anybody who may INSERT can add an entry that is a lie. The role of `database.url`
 * owns the backoffice, so it is such a role; the tenants' login is not, and cannot even read here. The trigger turns a
 * mistake into an error, and tampering into several deliberate statements; sealing the entries into chains is what
 * will show it afterwards.
 *
 * No foreign key to `tenants`: an entry outlives everything it speaks of, and no CASCADE reaches it.
 */
import type { Migration } from '../../kernel/migrations.ts'

export interface AuditEntryRow {
  id: string
  tenantId: string | null
  action: string
  actorType: string
  actorId: string
  actorName: string
  target: string
  before: Record<string, unknown> | null
  after: Record<string, unknown> | null
  requestId: string | null
  ip: string | null
  outcome: 'success' | 'failure'
  createdAt: Date
}

export interface AuditTables {
  auditEntries: AuditEntryRow
}

export const tables: readonly Migration[] = [
  {
    name: '0001_audit_entries',
    up: `
      create table audit_entries (
        id uuid primary key,
        tenant_id text,
        action text not null,
        actor_type text not null,
        actor_id text not null,
        actor_name text not null,
        target text not null,
        before jsonb,
        after jsonb,
        request_id text,
        ip text,
        outcome text not null check (outcome in ('success', 'failure')),
        created_at timestamptz(3) not null
      );
      create index audit_entries_page on audit_entries (created_at desc, id desc);
      create index audit_entries_tenant_page on audit_entries (tenant_id, created_at desc, id desc);

      create function refuse_audit_change() returns trigger language plpgsql as $$
        begin
          raise exception 'audit entries are append-only: % is refused', tg_op
            using errcode = 'insufficient_privilege', hint = 'Entries are added, and never changed or removed.';
        end
      $$;
      create trigger audit_entries_append_only before update or delete or truncate on audit_entries
        for each statement execute function refuse_audit_change();
      alter table audit_entries enable always trigger audit_entries_append_only;
    `,
  },
]
