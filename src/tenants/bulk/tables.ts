/** Tables of bulk jobs: one row for each job, one for each of its tenants. */
import type { Actor } from '../../kernel/base/context.ts'
import type { Migration } from '../../kernel/database/migrations.ts'
import type { Failure } from '../tenant/failure.ts'
import type { BulkInput, BulkOperation } from './input.ts'

export interface BulkJobRow {
  id: string
  operation: BulkOperation
  input: BulkInput
  isDryRun: boolean
  state: 'pending' | 'running' | 'completed' | 'cancelled'
  /** Who started it: the actor of each change. */
  actor: Actor
  requestId: string | null
  /** The token of the database that started it. */
  tokenId: string | null
  total: number
  done: number
  unchanged: number
  failed: number
  /** Why it ended early. */
  failure: Failure | null
  worker: string | null
  leaseUntil: Date
  createdAt: Date
  finishedAt: Date | null
}

export interface BulkItemRow {
  jobId: string
  tenantId: string
  state: 'pending' | 'done' | 'unchanged' | 'failed' | 'skipped'
  code: string | null
  message: string | null
  finishedAt: Date | null
}

export interface BulkTables {
  bulkJobs: BulkJobRow
  bulkItems: BulkItemRow
}

export const JOBS = 'multitenancy.bulk_jobs'
export const ITEMS = 'multitenancy.bulk_items'

export const tables: readonly Migration[] = [
  {
    name: '0001_bulk',
    up: `
      create table bulk_jobs (
        id uuid primary key,
        operation text not null,
        input jsonb not null,
        is_dry_run boolean not null,
        state text not null default 'pending' check (state in ('pending', 'running', 'completed', 'cancelled')),
        actor jsonb not null,
        request_id text,
        token_id uuid,
        total integer not null,
        done integer not null default 0,
        unchanged integer not null default 0,
        failed integer not null default 0,
        failure jsonb,
        worker uuid,
        lease_until timestamptz(3) not null default now(),
        created_at timestamptz(3) not null,
        finished_at timestamptz(3)
      );
      create index bulk_jobs_page on bulk_jobs (created_at desc, id desc);
      create index bulk_jobs_unfinished on bulk_jobs (lease_until) where state in ('pending', 'running');
      create table bulk_items (
        job_id uuid not null references bulk_jobs on delete cascade,
        tenant_id text not null,
        state text not null default 'pending' check (state in ('pending', 'done', 'unchanged', 'failed', 'skipped')),
        code text,
        message text,
        finished_at timestamptz(3),
        primary key (job_id, tenant_id)
      );
      create index bulk_items_pending on bulk_items (job_id, tenant_id) where state = 'pending';
      create index bulk_items_tenant on bulk_items (tenant_id);
    `,
  },
]
