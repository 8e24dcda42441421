/**
 * Jobs on pg-boss, in the backoffice database (schema `multitenancy_jobs`), sent within our own transactions.
 *
 * - A notification wakes a worker for one fetch only, so a worker that found a job wakes its queue's workers again: a hundred
 *   jobs of one transaction start without waiting for a poll. One worker of each queue polls every second, for what is
 *   delayed or retried; the others wait to be woken.
 * - Workers fetch one job at a time, with a cap per tenant: with a batch the limit would come before the cap, and a quiet
 *   tenant would starve behind a loud one.
 * - A job carries its key: of one type and key at most one is waiting. One that is being worked on does not count, so that
 *   what is asked while it runs is not lost.
 */
import { randomUUID } from 'node:crypto'
import { PgBoss, type QueueOptions } from 'pg-boss'
import { runInContext, SYSTEM } from '../../kernel/context.ts'
import type { Database } from '../../kernel/database.ts'
import type {
  Attempt,
  CountQueues,
  JobRunner,
  JobType,
  QueueCounts,
  QueueState,
  RegisteredJobs,
  Sending,
  SendOptions,
} from '../../kernel/jobs.ts'
import type { Logger } from '../../kernel/logger.ts'
import { readQueueState } from './queue-state.ts'

const SCHEMA = 'multitenancy_jobs'
const PREFIX = 'tenantry.'
export const DEAD_LETTER = `${PREFIX}dead-letter`

const COMPLETED_KEPT_SECONDS = 3_600
const WAITING_KEPT_SECONDS = 365 * 86_400
const HEARTBEAT_SECONDS = 15
const SUPERVISE_SECONDS = 10
const POLL_SECONDS = 1
const IDLE_POLL_SECONDS = 30
const ORPHAN_SWEEP_MS = 3_600_000

const queueName = (type: JobType): string => `${PREFIX}${type.name}`

export class PgBossJobs implements JobRunner {
  readonly #database: Database
  readonly #log: Logger
  readonly #boss: PgBoss
  readonly #otherQueues: CountQueues[] = []
  #orphanSweep: NodeJS.Timeout | undefined

  constructor(database: Database, log: Logger) {
    this.#database = database
    this.#log = log
    this.#boss = new PgBoss({
      db: {
        executeSql: (text, values) => database.sql(text, values),
        listen: (channel, onMessage, onGap) => database.listen(channel, onMessage, onGap),
      },
      schema: SCHEMA,
      useListenNotify: true,
      // Of the two the longer rules: how soon a job is missed whose worker was killed.
      superviseIntervalSeconds: SUPERVISE_SECONDS,
      monitorIntervalSeconds: SUPERVISE_SECONDS,
      cronMonitorIntervalSeconds: 10,
      cronWorkerIntervalSeconds: 1,
    })
    this.#boss.on('error', (error) => log.warn({ err: error }, 'the job queue reported an error'))
    this.#boss.on('warning', (warning) => log.warn({ warning }, 'the job queue warns'))
  }

  async start(registered: RegisteredJobs, { work }: { work: boolean }): Promise<void> {
    try {
      await this.#boss.start()
      await this.#makeQueues(registered.types)
      if (!work) return
      await this.#keepSchedule(registered.schedule)
      await this.#moveOrphans(registered.types)
      this.#orphanSweep = setInterval(() => this.#sweep(registered.types), ORPHAN_SWEEP_MS).unref()
      for (const type of registered.types) {
        const handle = registered.handlers.get(type.name)
        if (handle) await this.#work(type, handle)
      }
    } catch (error) {
      await this.stop(0) // its timers would keep the process alive
      throw error
    }
  }

  async stop(timeoutMs: number): Promise<void> {
    clearInterval(this.#orphanSweep)
    await this.#boss.stop({ graceful: true, timeout: timeoutMs, close: false })
  }

  send(type: JobType, data: unknown, options: SendOptions = {}): Promise<void> {
    return this.sendAll(type, [{ data, ...options }])
  }

  async sendAll(type: JobType, jobs: readonly Sending<unknown>[]): Promise<void> {
    if (jobs.length === 0) return
    const rows = jobs.map(({ data, tenantId, key, afterSeconds }) => ({
      data: type.data.parse(data) as object,
      singletonKey: key ?? randomUUID(),
      ...(tenantId === undefined ? {} : { group: { id: tenantId } }),
      ...(afterSeconds === undefined ? {} : { startAfter: Math.max(0, afterSeconds) }),
    }))
    await this.#boss.insert(queueName(type), rows)
  }

  async isPending(type: JobType, key: string): Promise<boolean> {
    const jobs = await this.#boss.findJobs(queueName(type), { key })
    return jobs.some(({ state }) => state === 'created' || state === 'retry' || state === 'active')
  }

  async cancel(type: JobType, key: string): Promise<void> {
    // In one statement, because pg-boss's own cancel also takes a job that a worker has fetched in between.
    await this.#database.sql(
      `delete from ${SCHEMA}.job where name = $1 and singleton_key = $2 and state < 'active' and not blocked`,
      [queueName(type), key],
    )
  }

  async forget(tenantId: string): Promise<void> {
    await this.#database.sql(`delete from ${SCHEMA}.job where group_id = $1 and state <> 'active'`, [tenantId])
  }

  async counts(tenantId?: string): Promise<QueueCounts[]> {
    const { rows } = await this.#database.sql(
      `select name as queue, group_id as "tenantId",
         count(*) filter (where state in ('created', 'retry') and start_after <= now()) as waiting,
         count(*) filter (where state = 'active') as active,
         count(*) filter (where state = 'completed') as completed,
         count(*) filter (where state in ('failed', 'cancelled')) as failed,
         count(*) filter (where state in ('created', 'retry') and start_after > now()) as delayed
       from ${SCHEMA}.job
       where starts_with(name, $1) and ($2::text is null or group_id = $2)
       group by name, group_id order by name, group_id`,
      [PREFIX, tenantId ?? null],
    )
    const others = await Promise.all(this.#otherQueues.map((count) => count(tenantId)))
    return [...rows, ...others.flat()]
  }

  state(lateMs: number): Promise<QueueState> {
    return readQueueState(this.#database, { schema: SCHEMA, prefix: PREFIX, deadLetter: DEAD_LETTER, lateMs })
  }

  alsoCount(count: CountQueues): void {
    this.#otherQueues.push(count)
  }

  async #makeQueues(types: readonly JobType[]): Promise<void> {
    const known = new Set((await this.#boss.getQueues()).map(({ name }) => name))
    if (!known.has(DEAD_LETTER)) await this.#boss.createQueue(DEAD_LETTER, { retentionSeconds: WAITING_KEPT_SECONDS })
    for (const type of types) {
      const options = { ...optionsOf(type), deadLetter: DEAD_LETTER, notify: true }
      if (known.has(queueName(type))) await this.#boss.updateQueue(queueName(type), options)
      else await this.#boss.createQueue(queueName(type), { ...options, policy: 'short' })
    }
  }

  /** What no code registers any more is no longer sent: it would pile up among the dead letters. */
  async #keepSchedule(schedule: RegisteredJobs['schedule']): Promise<void> {
    const wanted = new Map(schedule.map(({ type, cron }) => [queueName(type), cron]))
    for (const { name, key } of await this.#boss.getSchedules()) {
      if (!wanted.has(name)) await this.#boss.unschedule(name, key)
    }
    for (const [name, cron] of wanted) await this.#boss.schedule(name, cron)
  }

  /** One `work` per worker, so that each can be woken by its id. */
  async #work(type: JobType, handle: (data: any, attempt: Attempt) => Promise<void>): Promise<void> {
    const workerIds: string[] = []
    const wakeAll = () => {
      for (const id of workerIds) this.#boss.notifyWorker(id)
    }
    for (let index = 0; index < (type.workers ?? 4); index++) {
      const options = {
        batchSize: 1,
        includeMetadata: true as const,
        groupConcurrency: type.perTenant ?? 2,
        pollingIntervalSeconds: POLL_SECONDS,
        notifyPollingIntervalSeconds: index === 0 ? POLL_SECONDS : IDLE_POLL_SECONDS,
      }
      const id = await this.#boss.work<unknown, void, typeof options>(queueName(type), options, async ([job]) => {
        if (!job) return
        wakeAll()
        try {
          const attempt = {
            number: job.retryCount + 1,
            isLast: job.retryCount >= job.retryLimit,
            signal: job.signal,
          }
          await runInContext({ requestId: job.id, actor: SYSTEM, ip: null, tenantId: job.groupId ?? null }, () =>
            handle(type.data.parse(job.data ?? {}), attempt),
          )
        } catch (error) {
          this.#log.warn({ err: error, job: type.name, attempt: job.retryCount + 1 }, 'a job failed')
          throw new Error(plainFailure(error)) // what pg-boss keeps of it
        } finally {
          wakeAll()
        }
      })
      workerIds.push(id)
    }
  }

  /** Waiting jobs in queues that no code registers would never run: they go to the dead letters under their old name. */
  async #moveOrphans(types: readonly JobType[]): Promise<void> {
    const { rows } = await this.#database.sql(
      `with orphan as (
         delete from ${SCHEMA}.job
         where state in ('created', 'retry') and name <> all($1) and name not like '\\_\\_pgboss\\_\\_%'
         returning id, name, data, group_id, created_on, retry_count, output)
       insert into ${SCHEMA}.job (name, data, group_id, keep_until, policy,
         source_name, source_id, source_created_on, source_retry_count, source_output, source_root_id)
       select $2, data, group_id, now() + $3 * interval '1 second', 'standard',
         name, id, created_on, retry_count, output, id from orphan
       returning source_name`,
      [[...types.map(queueName), DEAD_LETTER], DEAD_LETTER, WAITING_KEPT_SECONDS],
    )
    if (rows.length > 0) {
      const queues = [...new Set(rows.map(({ source_name }) => source_name))]
      this.#log.warn({ jobs: rows.length, queues }, 'jobs that no code handles were moved to the dead letters')
    }
  }

  #sweep(types: readonly JobType[]): void {
    this.#moveOrphans(types).catch((error) => this.#log.warn({ err: error }, 'orphaned jobs could not be looked for'))
  }
}

const optionsOf = ({ retries = 3, retryDelaySeconds = 1, timeoutSeconds = 900 }: JobType): QueueOptions => ({
  retryLimit: retries,
  retryDelay: retryDelaySeconds,
  retryBackoff: true,
  expireInSeconds: timeoutSeconds,
  heartbeatSeconds: HEARTBEAT_SECONDS,
  retentionSeconds: WAITING_KEPT_SECONDS,
  deleteAfterSeconds: COMPLETED_KEPT_SECONDS,
})

/** The error's code is kept with the job; its text may hold what is nobody's business and is in the log only. */
function plainFailure(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  return typeof code === 'string' ? code : 'the job failed; the log says why'
}
