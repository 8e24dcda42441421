/** What pg-boss's tables should have and have not, and what is taken away from them when nobody knows it any more. */

import type { Logger } from '../../kernel/base/logger.ts'
import type { Database } from '../../kernel/database/database.ts'
import { forgottenNames, keptSchedules } from '../../kernel/jobs/queue-registry.ts'

export interface UpkeepOptions {
  readonly schema: string
  /** Of the names of all queues that any release has registered since 0.1.0. */
  readonly prefix: string
  readonly deadLetter: string
  readonly keptSeconds: number
}

/** Of these queues, those to which the clock should send, as somebody keeps that, and does not. */
export async function unscheduled(database: Database, schema: string, queues: readonly string[]): Promise<string[]> {
  const { rows } = await database.sql(`select name from ${schema}.schedule`)
  const scheduled = new Set(rows.map(({ name }) => name))
  return (await keptSchedules(database, queues)).filter((name) => !scheduled.has(name))
}

/**
 * In the transaction that has noted what this process knows. A name without the prefix is no process's: it goes at once, the others
 * when no process has known them for a week.
 */
export async function removeForgotten(database: Database, log: Logger, options: UpkeepOptions): Promise<void> {
  const { schema, prefix, deadLetter } = options
  const { rows: queues } = await database.sql(
    `select name from ${schema}.queue where name <> $1 and name not like '\\_\\_pgboss\\_\\_%'`,
    [deadLetter],
  )
  const { rows: schedules } = await database.sql(`select distinct name from ${schema}.schedule`)
  const isOurs = ({ name }: { name: string }) => name.startsWith(prefix)
  const names = (rows: readonly { name: string }[]) => rows.map(({ name }) => name)
  const known = await forgottenNames(database, {
    queues: names(queues.filter(isOurs)),
    schedules: names(schedules.filter(isOurs)),
  })
  const forgotten = {
    queues: [...known.queues, ...names(queues.filter((queue) => !isOurs(queue)))],
    schedules: [...known.schedules, ...names(schedules.filter((schedule) => !isOurs(schedule)))],
  }
  if (forgotten.schedules.length > 0) {
    // Before its jobs: what is still sent would pile up among the dead letters.
    await database.sql(`delete from ${schema}.schedule where name = any($1)`, [forgotten.schedules])
    log.warn({ queues: forgotten.schedules }, 'schedules that nobody knows any more were removed')
  }
  if (forgotten.queues.length > 0) await moveOrphans(database, log, forgotten.queues, options)
}

/** Waiting jobs in queues that no code registers would never run: they go to the dead letters under their old name. */
async function moveOrphans(
  database: Database,
  log: Logger,
  forgotten: readonly string[],
  { schema, deadLetter, keptSeconds }: UpkeepOptions,
): Promise<void> {
  const { rows } = await database.sql(
    `with orphan as (
       delete from ${schema}.job where state in ('created', 'retry') and name = any($1)
       returning id, name, data, group_id, created_on, retry_count, output)
     insert into ${schema}.job (name, data, group_id, keep_until, policy, output,
       source_name, source_id, source_created_on, source_retry_count, source_output, source_root_id)
     select $2, data, group_id, now() + $3 * interval '1 second', 'standard', '{"isOrphan":true}',
       name, id, created_on, retry_count, output, id from orphan
     returning source_name`,
    [forgotten, deadLetter, keptSeconds],
  )
  if (rows.length > 0) {
    const queues = [...new Set(rows.map(({ source_name }) => source_name))]
    log.warn({ jobs: rows.length, queues }, 'jobs whose queue nobody knows any more were moved to the dead letters')
  }
}
