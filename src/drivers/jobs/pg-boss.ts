/**
 * Runs jobs on pg-boss in the backoffice database (schema `multitenancy_jobs`), and sends them in the caller's
 * transaction.
 *
 * - A notification wakes a worker for one fetch. A worker that has found a job wakes the workers of its queue again, so
 *   that a hundred jobs of one transaction start without polling. One worker of each queue polls every second, for
 *   delayed and retried jobs; the others wait for a notification.
 * - Workers fetch one job at a time, with a limit per tenant. In a batch the limit would apply after the fetch, and a
 *   noisy tenant would starve the others.
 * - At most one job of a type and key is waiting. A running job does not count, so that a request during its run is
 *   kept.
 * - Schedules and waiting jobs are removed when no process has known their name for a week
 *   (`kernel/jobs/queue-registry.ts`), because processes of other releases share the database. A name without the
 *   prefix belongs to no process and is removed immediately.
 */
import { randomUUID } from 'node:crypto'
import { PgBoss } from 'pg-boss'
import { LOADED_WITHIN_MS } from '../../kernel/base/cached-query.ts'
import { enterContext, SYSTEM } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import type { Database } from '../../kernel/database/database.ts'
import type {
  Attempt,
  CountQueues,
  DeadJobs,
  JobRunner,
  JobType,
  QueueCounts,
  QueueState,
  RegisteredJobs,
  Sending,
  SendOptions,
  StartOptions,
} from '../../kernel/jobs/jobs.ts'
import { NOTED_AGAIN_MS, noteNames } from '../../kernel/jobs/queue-registry.ts'
import { NO_TRACING, type Tracing } from '../../kernel/resilience/tracing.ts'
import { createDeadJobs, type DeadRow } from './dead-jobs.ts'
import { inJobSpan, traceOf, withTrace } from './job-trace.ts'
import { queueOptions, WAITING_KEPT_SECONDS } from './queue-options.ts'
import { readQueueState } from './queue-state.ts'
import { removeForgotten, unscheduled } from './upkeep.ts'

const SCHEMA = 'multitenancy_jobs'
const PREFIX = 'tenantry.'
export const DEAD_LETTER = `${PREFIX}dead-letter`

const SUPERVISE_SECONDS = 10
const POLL_SECONDS = 1
const IDLE_POLL_SECONDS = 30
/** Timeout for jobs that a failed start has already started. */
const FAILED_START_STOP_MS = 1_000

const queueName = (type: JobType): string => `${PREFIX}${type.name}`

export class PgBossJobs implements JobRunner {
  readonly deadJobs: DeadJobs
  readonly #database: Database
  readonly #log: Logger
  readonly #tracing: Tracing
  readonly #boss: PgBoss
  readonly #otherQueues: CountQueues[] = []
  #queues: readonly string[] = []
  /** Cron expressions, by queue. */
  #schedule: ReadonlyMap<string, string> = new Map()
  #upkeepTimer: NodeJS.Timeout | undefined
  #upkeep: Promise<unknown> = Promise.resolve()

  constructor(database: Database, log: Logger, tracing: Tracing = NO_TRACING) {
    this.#database = database
    this.#log = log
    this.#tracing = tracing
    const send = (dead: DeadRow) => this.#sendAgain(dead)
    this.deadJobs = createDeadJobs(database, { schema: SCHEMA, deadLetter: DEAD_LETTER, send })
    this.#boss = new PgBoss({
      db: {
        executeSql: (text, values) => database.sql(text, values),
        listen: (channel, onMessage, onGap) => database.listen(channel, onMessage, onGap),
      },
      schema: SCHEMA,
      useListenNotify: true,
      // The intervals after which pg-boss detects the job of a killed worker.
      superviseIntervalSeconds: SUPERVISE_SECONDS,
      monitorIntervalSeconds: SUPERVISE_SECONDS,
      cronMonitorIntervalSeconds: 10,
      cronWorkerIntervalSeconds: 1,
    })
    this.#boss.on('error', (error) => log.warn({ err: toError(error) }, 'the job queue reported an error'))
    this.#boss.on('warning', (warning) => log.warn({ warning }, 'the job queue reported a warning'))
  }

  async start(registered: RegisteredJobs, { work, keep, canWrite = true }: StartOptions): Promise<void> {
    this.#queues = registered.types.map(queueName)
    this.#schedule = new Map(registered.schedule.map(({ type, cron }) => [queueName(type), cron]))
    if (!canWrite) return
    try {
      await this.#boss.start()
      await this.#makeQueues(registered.types)
      await this.#maintain(keep)
      // After the names are noted, otherwise another process could remove the schedules. All of them, as their times
      // may have changed.
      if (keep) for (const [name, cron] of this.#schedule) await this.#boss.schedule(name, cron)
      this.#upkeepTimer = setInterval(() => this.#maintainLater(keep), NOTED_AGAIN_MS).unref()
      if (!work) return
      for (const type of registered.types) {
        const handle = registered.handlers.get(type.name)
        if (handle) await this.#work(type, handle)
      }
    } catch (error) {
      await this.stop(FAILED_START_STOP_MS) // pg-boss's timers would keep the process alive
      throw error
    }
  }

  async stop(timeoutMs: number): Promise<void> {
    clearInterval(this.#upkeepTimer)
    await this.#upkeep
    // pg-boss checks only every 500 ms whether the workers have ended; a worker without a job ends immediately.
    const ended = Promise.all(this.#queues.map((name) => this.#boss.offWork(name)))
    const deadline = Promise.withResolvers<void>()
    const timer = setTimeout(deadline.resolve, timeoutMs)
    await Promise.race([ended, deadline.promise])
    clearTimeout(timer)
    await this.#boss.stop({ graceful: false, close: false })
  }

  send(type: JobType, data: unknown, options: SendOptions = {}): Promise<void> {
    return this.sendAll(type, [{ data, ...options }])
  }

  async sendAll(type: JobType, jobs: readonly Sending<unknown>[]): Promise<void> {
    if (jobs.length === 0) return
    const traceparent = this.#tracing.traceparent()
    const rows = jobs.map(({ data, tenantId, key, afterSeconds }) => ({
      data: withTrace(type.data.parse(data) as object, traceparent),
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
    // One statement, because pg-boss's cancel also cancels a job that a worker has fetched in between.
    await this.#database.sql(
      `delete from ${SCHEMA}.job where name = $1 and singleton_key = $2 and state < 'active' and not blocked`,
      [queueName(type), key],
    )
  }

  async forget(tenantId: string): Promise<void> {
    await this.#database.sql(`delete from ${SCHEMA}.job where group_id = $1 and state <> 'active'`, [tenantId])
  }

  async countOf(tenantId: string): Promise<number> {
    const { rows } = await this.#database.sql(`select count(*) as count from ${SCHEMA}.job where group_id = $1`, [
      tenantId,
    ])
    return rows[0].count
  }

  async counts(tenantId?: string): Promise<QueueCounts[]> {
    const text = `select name as queue, group_id as "tenantId",
         count(*) filter (where state in ('created', 'retry') and start_after <= now()) as waiting,
         count(*) filter (where state = 'active') as active,
         count(*) filter (where state = 'completed') as completed,
         count(*) filter (where state in ('failed', 'cancelled')) as failed,
         count(*) filter (where state in ('created', 'retry') and start_after > now()) as delayed
       from ${SCHEMA}.job
       where starts_with(name, $1) and ($2::text is null or group_id = $2)
       group by name, group_id order by name, group_id`
    const { rows } = await this.#database.sql({ text, timeoutMs: LOADED_WITHIN_MS }, [PREFIX, tenantId ?? null])
    const others = await Promise.all(this.#otherQueues.map((count) => count(tenantId)))
    return [...rows, ...others.flat()]
  }

  state(lateMs: number): Promise<QueueState> {
    const schedules = [...this.#schedule.keys()]
    const options = { schema: SCHEMA, prefix: PREFIX, deadLetter: DEAD_LETTER, schedules, lateMs }
    return readQueueState(this.#database, options)
  }

  scheduleMissing(): Promise<string[]> {
    return this.#database.transaction(async () => {
      await noteNames(this.#database, { queues: this.#queues, schedules: [] })
      return this.#scheduleMissing()
    })
  }

  alsoCount(count: CountQueues): void {
    this.#otherQueues.push(count)
  }

  async #sendAgain({ queue, data, tenantId, key }: DeadRow): Promise<boolean> {
    if (!this.#queues.includes(queue)) return false
    const group = tenantId === null ? {} : { group: { id: tenantId } }
    await this.#boss.insert(queue, [{ data: data as object, singletonKey: key ?? randomUUID(), ...group }])
    return true
  }

  async #makeQueues(types: readonly JobType[]): Promise<void> {
    const known = new Set((await this.#boss.getQueues()).map(({ name }) => name))
    if (!known.has(DEAD_LETTER)) await this.#boss.createQueue(DEAD_LETTER, { retentionSeconds: WAITING_KEPT_SECONDS })
    for (const type of types) {
      const options = { ...queueOptions(type), deadLetter: DEAD_LETTER, notify: true }
      if (known.has(queueName(type))) await this.#boss.updateQueue(queueName(type), options)
      else await this.#boss.createQueue(queueName(type), { ...options, policy: 'short' })
    }
  }

  /**
   * @param keep whether this process maintains the schedule and removes forgotten names; every process notes its queues
   */
  async #maintain(keep: boolean): Promise<void> {
    await this.#database.transaction(async () => {
      const schedules = keep ? [...this.#schedule.keys()] : []
      await noteNames(this.#database, { queues: this.#queues, schedules })
      if (!keep) return
      await removeForgotten(this.#database, this.#log, {
        schema: SCHEMA,
        prefix: PREFIX,
        deadLetter: DEAD_LETTER,
        keptSeconds: WAITING_KEPT_SECONDS,
      })
      await this.#scheduleMissing()
    })
  }

  #maintainLater(keep: boolean): void {
    this.#upkeep = this.#maintain(keep).catch((error) =>
      this.#log.warn({ err: error }, 'the schedule and the queues could not be maintained; trying again in an hour'),
    )
  }

  async #scheduleMissing(): Promise<string[]> {
    const missing = await unscheduled(this.#database, SCHEMA, [...this.#schedule.keys()])
    for (const name of missing) await this.#boss.schedule(name, this.#schedule.get(name) ?? '')
    return missing
  }

  /** Calls pg-boss's `work` once for each worker, so that each can be woken by its id. */
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
          const { data, traceparent } = traceOf(job.data ?? {})
          const tenantId = job.groupId ?? null
          await enterContext({ requestId: job.id, actor: SYSTEM, ip: null, tenantId, traceparent }, () =>
            inJobSpan(this.#tracing, { type, attempt, tenantId }, () => handle(type.data.parse(data), attempt)),
          )
        } catch (error) {
          this.#log.warn({ err: error, job: type.name, attempt: job.retryCount + 1 }, 'a job failed')
          throw new Error(plainFailure(error)) // stored by pg-boss
        } finally {
          wakeAll()
        }
      })
      workerIds.push(id)
    }
  }
}

/** pg-boss reports copies of errors, which have no class. */
const toError = (reported: Error): Error =>
  reported instanceof Error ? reported : Object.assign(new Error((reported as Error).message), reported)

/** Returns the text stored with the job: the error's code. The message may contain secrets and is only logged. */
function plainFailure(error: unknown): string {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  return typeof code === 'string' ? code : 'The job failed; see the log for the cause'
}
