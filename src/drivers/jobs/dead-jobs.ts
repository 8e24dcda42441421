/** Reads and sends dead letters: jobs in pg-boss's dead letter queue, with the queue that they came from. */
import type { Database } from '../../kernel/database/database.ts'
import type { DeadJob, DeadJobFilter, DeadJobs } from '../../kernel/jobs/jobs.ts'

export interface DeadJobsOptions {
  readonly schema: string
  readonly deadLetter: string
  /** Sends a job, unless no handler of its queue is registered. */
  readonly send: (job: DeadRow) => Promise<boolean>
}

export interface DeadRow extends DeadJob {
  /** Key under which it was sent. */
  readonly key: string | null
}

const CREATED_AT = "date_trunc('milliseconds', created_on)"
/** The failure of a handler, or of pg-boss. Copies from before the column `source_output` have it as their own. */
const ERROR = `coalesce(source_output->>'message', source_output->'value'->>'message', output->>'message', output->'value'->>'message')`
const ROW = `id, coalesce(source_name, name) as queue, group_id as "tenantId", data, ${ERROR} as error, singleton_key as key,
  coalesce(output ? 'isOrphan', false) as "isOrphaned", coalesce(source_retry_count, 0) as retries, ${CREATED_AT} as "createdAt"`

export function createDeadJobs(database: Database, { schema, deadLetter, send }: DeadJobsOptions): DeadJobs {
  const isDead = `name = $1 and state < 'active'`
  const read = async (text: string, ...values: readonly unknown[]): Promise<DeadRow[]> =>
    (await database.sql(text, [deadLetter, ...values])).rows.map(toJob)
  return {
    list: ({ queue = null, tenantId = null }: Nullable<DeadJobFilter>, { createdAt = null, id = null }, limit) =>
      read(
        `select ${ROW} from ${schema}.job where ${isDead}
           and ($2::text is null or source_name = $2) and ($3::text is null or group_id = $3)
           and ($4::timestamptz is null or (${CREATED_AT}, id) < ($4, $5::uuid))
         order by ${CREATED_AT} desc, id desc limit $6`,
        queue,
        tenantId,
        createdAt,
        id,
        limit,
      ),
    find: async (id) => (await read(`select ${ROW} from ${schema}.job where ${isDead} and id = $2`, id))[0],
    take: async (id) => (await read(`delete from ${schema}.job where ${isDead} and id = $2 returning ${ROW}`, id))[0],
    send: (dead) => send(dead as DeadRow),
  }
}

type Nullable<T> = { readonly [Name in keyof T]: T[Name] | null }

const toJob = ({ retries, ...row }: Omit<DeadRow, 'attempts'> & { retries: number }): DeadRow => ({
  ...row,
  attempts: row.isOrphaned ? retries : retries + 1,
})
