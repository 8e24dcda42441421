/** Finds missing schedules in pg-boss's tables, and removes schedules and queues that no process knows any longer. */

import type { Logger } from '../../kernel/base/logger.ts'
import type { Database } from '../../kernel/database/database.ts'
import { forgottenNames, keptSchedules } from '../../kernel/jobs/queue-registry.ts'

export interface UpkeepOptions {
  readonly schema: string
  /** Prefix of all queue names that any release has registered. */
  readonly prefix: string
  readonly deadLetter: string
  readonly keptSeconds: number
}

/** Returns those of `queues` that have no schedule although a process maintains it. */
export async function unscheduled(database: Database, schema: string, queues: readonly string[]): Promise<string[]> {
  const { rows } = await database.sql(`select name from ${schema}.schedule`)
  const scheduled = new Set(rows.map(({ name }) => name))
  return (await keptSchedules(database, queues)).filter((name) => !scheduled.has(name))
}

/**
 * Runs in the transaction that has noted the names of this process. Names without the prefix are removed immediately,
 * other names when no process has known them for a week.
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
    // Before the jobs: otherwise newly scheduled jobs would become dead letters.
    await database.sql(`delete from ${schema}.schedule where name = any($1)`, [forgotten.schedules])
    log.warn({ queues: forgotten.schedules }, 'schedules that no process knows were removed')
  }
  if (forgotten.queues.length > 0) await moveOrphans(database, log, forgotten.queues, options)
}

/** Moves waiting jobs of unregistered queues to the dead letters, under their old name. They would never run. */
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
    log.warn({ jobs: rows.length, queues }, 'jobs of unknown queues were moved to the dead letters')
  }
}
