/**
 * Records which queues and schedules each process knows. Processes of different versions or with different satellites share a database,
 * so each records the names that it registers: at its start, and hourly. A name that no process has recorded for a week is unknown.
 *
 * - Only time in which processes ran counts. Otherwise the first process after a long pause, or on a restored backup, would treat all
 *   names of other processes as unknown.
 * - A process that records names locks the table until its transaction ends, so no name is recorded during a removal. The server ends
 *   such a transaction after its time limit, because all starting processes wait for it.
 */
import type { Database } from '../database/database.ts'

export const NOTED_AGAIN_MS = 3_600_000
/** A longer time without a record counts as a pause of all processes. */
const REST_HOURS = 2
const FORGOTTEN_DAYS = 7
const STANDS_STILL = '10s'

export const JOB_NAMES = `
      create table job_names (
        kind text not null check (kind in ('queue', 'schedule')),
        name text not null,
        seen_at timestamptz not null,
        primary key (kind, name)
      );
    `

export interface JobNames {
  readonly queues: readonly string[]
  /** Queues that a schedule sends to. */
  readonly schedules: readonly string[]
}

/** Must run in a transaction, which has exclusive access to the names from here on. */
export async function noteNames(database: Database, { queues, schedules }: JobNames): Promise<void> {
  await database.sql(`select set_config('idle_in_transaction_session_timeout', '${STANDS_STILL}', true)`)
  await database.sql('lock table multitenancy.job_names in exclusive mode')
  await database.sql(
    `update multitenancy.job_names set seen_at = seen_at + rest
     from (select now() - max(seen_at) as rest from multitenancy.job_names) newest
     where rest > interval '${REST_HOURS} hours'`,
  )
  await database.sql(
    `insert into multitenancy.job_names (kind, name, seen_at)
     select 'queue', unnest($1::text[]), now() union select 'schedule', unnest($2::text[]), now()
     on conflict (kind, name) do update set seen_at = excluded.seen_at`,
    [queues, schedules],
  )
}

/** Those of these schedules that a process maintains. */
export async function keptSchedules(database: Database, schedules: readonly string[]): Promise<string[]> {
  const { rows } = await database.sql(
    `select name from multitenancy.job_names where kind = 'schedule' and name = any($1)
       and seen_at >= now() - interval '${FORGOTTEN_DAYS} days' order by name`,
    [schedules],
  )
  return rows.map(({ name }) => name)
}

/** After `noteNames`: existing names that no process knows. A name without a record counts from now on. */
export async function forgottenNames(database: Database, { queues, schedules }: JobNames): Promise<JobNames> {
  await database.sql(
    `insert into multitenancy.job_names (kind, name, seen_at)
     select 'queue', unnest($1::text[]), now() union select 'schedule', unnest($2::text[]), now()
     on conflict do nothing`,
    [queues, schedules],
  )
  const { rows } = await database.sql(
    `select kind, name from multitenancy.job_names where seen_at < now() - interval '${FORGOTTEN_DAYS} days'
       and (kind = 'queue' and name = any($1) or kind = 'schedule' and name = any($2)) order by name`,
    [queues, schedules],
  )
  const of = (kind: string): string[] => rows.filter((row) => row.kind === kind).map(({ name }) => name)
  return { queues: of('queue'), schedules: of('schedule') }
}
