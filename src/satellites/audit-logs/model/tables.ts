/**
 * Tables of the audit log. `audit_entries` is append-only and partitioned by month; retention drops whole partitions (months.ts).
 *
 * - A trigger on each partition rejects UPDATE, DELETE and TRUNCATE for all roles, also superusers and `session_replication_role = replica`.
 * - The owner of the tables and superusers can drop the trigger, and a role with INSERT can add false entries. The trigger turns mistakes
 *   into errors. The chains of seals detect tampering (chain.ts).
 * - There are no foreign keys to `tenants`: entries outlive the objects that they describe.
 */
import type { Migration } from '../../../kernel/database/migrations.ts'

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

/** An entry with its seal, if it has one. */
export type SealedEntryRow = AuditEntryRow & { hash: string | null }

export interface AuditSealRow {
  /** `-` for entries that concern no single tenant. */
  tenantId: string
  /** From 1, without gaps. */
  seq: number
  entryId: string
  createdAt: Date
  digest: string
  hash: string
  /** Order of all seals, with gaps. */
  position: number
}

export interface AuditTables {
  auditEntries: AuditEntryRow
  auditSeals: AuditSealRow
}

/** `tenant_id` of entries without a tenant, where it is part of a key. */
export const NO_TENANT_KEY = '-'

/** Whether the time of an entry is valid. PostgreSQL has times that are no `Date`. */
export const inOurTime = (entry: string): string =>
  `${entry}.created_at >= '0001-01-01Z' and ${entry}.created_at < '10000-01-01Z'`
export const isInOurTime = (at: Date): boolean => at.getUTCFullYear?.() >= 1 && at.getUTCFullYear() <= 9_999

/** Indexed forms: an index has no values of any length, and a host records targets of any length. */
export const STORED_TARGET = 'left(target, 256)'
export const STORED_REQUEST = 'left(request_id, 128)'

/** Statements that create an index of a partitioned table, one partition after the other, without a lock that blocks writers. */
const lookup = (name: string, columns: string): readonly string[] => [
  `create index if not exists audit_entries_${name} on only audit_entries (${columns})`,
  `select statement from pg_inherits p
     join pg_class c on c.oid = p.inhrelid,
     lateral unnest(array[
       format('drop index concurrently if exists multitenancy.%I', c.relname || '_${name}'),
       format('create index concurrently %I on multitenancy.%I (${columns})', c.relname || '_${name}', c.relname),
       format('alter index multitenancy.audit_entries_${name} attach partition multitenancy.%I', c.relname || '_${name}')
     ]) with ordinality s (statement, place)
   where p.inhparent = 'multitenancy.audit_entries'::regclass and not exists (
     select from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid
     where i.inhparent = 'multitenancy.audit_entries_${name}'::regclass and x.indrelid = c.oid)
   order by c.relname, place`,
]

export const tables: readonly Migration[] = [
  {
    // `mac` proves that Tenantry recorded an entry. By `xact`, its transaction, the sealer finds entries without a seal (seal-watermark.ts).
    name: '0001_audit_logs',
    up: `
      create function reject_audit_change() returns trigger language plpgsql as $$
        begin
          raise exception 'audit entries are append-only: % is rejected', tg_op
            using errcode = 'insufficient_privilege', hint = 'Audit entries cannot be changed or removed.';
        end
      $$;
      create function create_audit_partition(name text, bounds text) returns void language plpgsql as $$
        begin
          execute format('create table multitenancy.%I partition of multitenancy.audit_entries %s', name, bounds);
          execute format('create trigger audit_entries_append_only before update or delete or truncate on multitenancy.%I
            for each statement execute function multitenancy.reject_audit_change()', name);
          execute format('alter table multitenancy.%I enable always trigger audit_entries_append_only', name);
        end
      $$;

      create table audit_entries (
        id uuid not null,
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
        created_at timestamptz(3) not null,
        xact xid8 not null default pg_current_xact_id(),
        mac text,
        primary key (created_at, id)
      ) partition by range (created_at);
      create index audit_entries_xact on audit_entries (xact);
      create index audit_entries_tenant_page on audit_entries (tenant_id, created_at desc, id desc);
      create trigger audit_entries_append_only before update or delete or truncate on audit_entries
        for each statement execute function reject_audit_change();
      alter table audit_entries enable always trigger audit_entries_append_only;
      select create_audit_partition('audit_entries_others', 'default');
      do $$
      declare
        present timestamp := date_trunc('month', now() at time zone 'UTC');
        month timestamp;
      begin
        for n in 0..2 loop
          month := present + n * interval '1 month';
          perform create_audit_partition('audit_entries_' || to_char(month, 'YYYYMM'), format('for values from (%s) to (%L)',
            case when n = 0 then 'minvalue' else quote_literal(month at time zone 'UTC') end,
            (month + interval '1 month') at time zone 'UTC'));
        end loop;
      end $$;

      create table audit_seals (
        tenant_id text collate "C" not null,
        seq bigint not null,
        entry_id uuid not null,
        created_at timestamptz(3) not null,
        digest text not null,
        hash text not null,
        primary key (tenant_id, seq)
      );
      create unique index audit_seals_entry on audit_seals (entry_id);

      create table audit_heads (
        tenant_id text collate "C" primary key,
        seq bigint not null,
        entry_id uuid not null,
        hash text not null,
        mac text not null
      );
      create table audit_checkpoints (
        tenant_id text collate "C" primary key,
        seq bigint not null,
        hash text not null,
        mac text not null
      );
      create table audit_state (
        is_only boolean primary key default true check (is_only),
        secret text not null,
        seals bigint not null,
        seals_mac text not null,
        sealed_to xid8,
        sealed_in text,
        kept_from timestamptz(3),
        kept_from_mac text
      );
    `,
  },
  {
    // Seals from before have lower positions than all others. They receive them in 0003_audit_positions.
    name: '0002_audit_stream',
    up: `
      alter table audit_seals add column position bigint,
        add constraint audit_seals_positioned check (position is not null) not valid;
      do $$
      begin
        execute format('create sequence audit_seals_position start with %s owned by audit_seals.position',
          (select count(*) + 1 from audit_seals));
      end $$;
      alter table audit_seals alter column position set default nextval('audit_seals_position');
    `,
  },
  {
    // Seals from before are ordered by the time of their entries, without a change of order in a chain.
    name: '0003_audit_positions',
    up: [
      `do $$
      declare
        assigned bigint;
        total bigint;
      begin
        drop table if exists pg_temp.positions;
        select coalesce(max(position), 0) into assigned from audit_seals
          where position < (select seqstart from pg_sequence where seqrelid = 'audit_seals_position'::regclass);
        create temporary table positions on commit preserve rows as
          select row_number() over (order by reached, tenant_id, seq) as place, tenant_id, seq from (
            select tenant_id, seq, position, max(created_at) over (partition by tenant_id order by seq) as reached from audit_seals) known
          where position is null;
        create index on pg_temp.positions (place);
        analyze pg_temp.positions;
        select count(*) into total from pg_temp.positions;
        commit;
        for done in 0..total by 10000 loop
          update audit_seals s set position = assigned + p.place from pg_temp.positions p
            where p.place > done and p.place <= done + 10000 and s.tenant_id = p.tenant_id and s.seq = p.seq;
          commit;
        end loop;
        drop table pg_temp.positions;
      end $$`,
      'drop index concurrently if exists audit_seals_order',
      'create unique index concurrently audit_seals_order on audit_seals (position)',
      'alter table audit_seals validate constraint audit_seals_positioned',
    ],
  },
  {
    // An empty key was destroyed by an erasure.
    name: '0004_audit_keys',
    up: 'create table audit_keys (tenant_id text primary key, key text not null)',
  },
  {
    name: '0005_audit_lookups',
    up: [...lookup('target', `${STORED_TARGET}, created_at desc, id desc`), ...lookup('request', STORED_REQUEST)],
  },
]
