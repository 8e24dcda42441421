/** Reads problems of pg-boss's queues for the doctor. All times are those of the database. */
import type { Database } from '../../kernel/database/database.ts'
import type { Backlog, QueueState } from '../../kernel/jobs/jobs.ts'
import { unscheduled } from './upkeep.ts'

/** Age of a lost heartbeat. Workers send one every few seconds, and any process takes over a lost job within ten. */
const SILENT_SECONDS = 120

export interface QueueStateOptions {
  readonly schema: string
  /** Prefix of Tenantry's queues. */
  readonly prefix: string
  readonly deadLetter: string
  /** Queues that this process has a schedule for. */
  readonly schedules: readonly string[]
  readonly lateMs: number
}

export async function readQueueState(
  database: Database,
  { schema, prefix, deadLetter, schedules, lateMs }: QueueStateOptions,
): Promise<QueueState> {
  const table = `${schema}.job`
  const [queues, dead, missing] = await Promise.all([
    database.sql(
      `select name as queue,
         count(*) filter (where ${LATE}) as late, min(start_after) filter (where ${LATE}) as "lateSince",
         count(*) filter (where ${SILENT}) as silent, min(heartbeat_on) filter (where ${SILENT}) as "silentSince",
         bool_or(started_on > now() - $3 * interval '1 millisecond' or (state = 'active' and not ${SILENT})) as "isWorkedOn"
       from ${table} where starts_with(name, $1) and name <> $2 group by name order by name`,
      [prefix, deadLetter, lateMs, SILENT_SECONDS],
    ),
    database.sql(
      `select coalesce(source_name, name) as queue, coalesce(output ? 'isOrphan', false) as "isOrphaned",
         count(*) as count, count(*) filter (where created_on > now() - interval '1 day') as recent,
         min(created_on) as since, max(created_on) as last
       from ${table} where name = $1 and state = 'created' group by 1, 2 order by 1, 2`,
      [deadLetter],
    ),
    unscheduled(database, schema, schedules),
  ])
  const { rows } = queues
  return {
    waiting: rows
      .filter(({ late }) => late > 0)
      .map(({ queue, late, lateSince, isWorkedOn }) => ({
        queue,
        count: late,
        since: lateSince,
        isWorkedOn: isWorkedOn ?? false,
      })),
    isWorking: rows.some(({ isWorkedOn }) => isWorkedOn),
    silent: rows
      .filter(({ silent }) => silent > 0)
      .map(({ queue, silent, silentSince }): Backlog => ({ queue, count: silent, since: silentSince })),
    deadLetters: dead.rows,
    unscheduled: missing,
  }
}

const LATE = `(state < 'active' and not blocked and start_after < now() - $3 * interval '1 millisecond')`
const SILENT = `(state = 'active' and heartbeat_on is not null and heartbeat_on < now() - $4 * interval '1 second')`
