/** Runs of commands for many tenants, as a part of a tenancy. */
import type { Part } from '../../kernel/part-definition.ts'
import { RunInProgress } from '../tenant/errors.ts'
import { CommandRuns } from './command-runs.ts'

export const commandRunsPart: Part<'commandRuns', CommandRuns> = {
  name: 'commandRuns',
  tables: [
    {
      name: '0001_command_runs',
      up: `
        create table command_runs (
          id uuid primary key,
          status text not null,
          process_id uuid,
          created_at timestamptz(3) not null default now()
        );
        create table command_run_items (
          run_id uuid not null references command_runs on delete cascade,
          tenant_id text not null,
          state text not null default 'pending' check (state in ('pending', 'running', 'done', 'failed', 'skipped')),
          exit_code integer,
          primary key (run_id, tenant_id)
        );
        create index command_run_items_pending on command_run_items (run_id, tenant_id) where state = 'pending';
        create index command_run_items_tenant on command_run_items (tenant_id);
      `,
    },
  ],
  tenantTables: ['command_run_items'],
  errors: [RunInProgress],
  service: (kernel) => new CommandRuns(kernel),
}
