/**
 * Which queues and schedules somebody knows. Processes with differing code work side by side on one database: with other satellites,
 * of another version. What one of them does not know may be another's, so each notes the queues that it registers, and, if it keeps
 * the schedule, what it schedules: at its start, and then hourly. A name that nobody has noted for a week is forgotten, and nobody's.
 *
 * - A week in which somebody ran. Time in which nobody noted anything does not count: else the first process after a long rest, or
 *   on a backup of last month, would find all that is the others' forgotten.
 * - Whoever notes holds the table until his transaction ends, so that nothing is noted while it is being taken away. The server ends
 *   one that stands still meanwhile, for all others that start wait behind it.
 */
import type { Database } from '../database/database.ts'

export const NOTED_AGAIN_MS = 3_600_000
/** Without a note for longer than this, nobody runs. */
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
  /** The queues that a clock sends to. */
  readonly schedules: readonly string[]
}

/** In a transaction, which from here on is alone with the names. */
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

/** Of these, the schedules that somebody keeps. */
export async function keptSchedules(database: Database, schedules: readonly string[]): Promise<string[]> {
  const { rows } = await database.sql(
    `select name from multitenancy.job_names where kind = 'schedule' and name = any($1)
       and seen_at >= now() - interval '${FORGOTTEN_DAYS} days' order by name`,
    [schedules],
  )
  return rows.map(({ name }) => name)
}

/** After `noteNames`: of what is there, all that nobody knows any more. What was never noted counts from now on. */
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
