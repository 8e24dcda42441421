/**
 * The port of the job queue. `send` adds a job in the present transaction, so it exists exactly if the change does; a part declares its
 * handler with `job`.
 *
 * Every job can run twice and must be idempotent. It names its tenant, so that one tenant's jobs do not starve others. It has a
 * heartbeat and a retry limit; after the last attempt it becomes a dead letter.
 */
import type { z } from 'zod'

export interface JobType<Name extends string = string, Data extends z.ZodType = z.ZodType> {
  readonly name: Name
  readonly summary: string
  readonly data: Data
  /** Attempts after the first. Default: 3. */
  readonly retries?: number
  /** Seconds before the first retry, doubled each time. Default: 1. */
  readonly retryDelaySeconds?: number
  /** Maximum seconds before a later retry. Default: 86,400. */
  readonly retryDelayMaxSeconds?: number
  /** Time limit of an attempt in seconds. Default: 900. */
  readonly timeoutSeconds?: number
  /** Concurrent jobs of this type in one process. Default: 4. */
  readonly workers?: number
  /** Concurrent jobs of one tenant over all processes, a soft limit. Default: 2. */
  readonly perTenant?: number
}

export interface Attempt {
  /** 1 for the first. */
  readonly number: number
  readonly isLast: boolean
  /** Aborts at the time limit or when the worker stops. */
  readonly signal: AbortSignal
}

export interface Job<Service = any> {
  readonly type: JobType
  readonly handle: (service: Service, data: any, attempt: Attempt) => Promise<void>
}

/** A job that a schedule sends, once over all processes. Cron in UTC, five fields. */
export interface Recurring {
  readonly type: JobType
  readonly cron: string
}

export interface SendOptions {
  /** Tenant of the job, for fairness and for removal at its purge. */
  readonly tenantId?: string
  /** At most one job of this type and key waits: another send is dropped, unless the former job is active. */
  readonly key?: string
  readonly afterSeconds?: number
}

/** One of many jobs that are sent together. */
export interface Sending<Data> extends SendOptions {
  readonly data: Data
}

/** Jobs by queue and state, in the terms of section 5 of the contract. */
export interface QueueCounts {
  readonly queue: string
  readonly tenantId: string | null
  readonly waiting: number
  readonly active: number
  readonly completed: number
  readonly failed: number
  readonly delayed: number
}

/** Jobs of one queue with a problem. */
export interface Backlog {
  readonly queue: string
  readonly count: number
  /** Of the oldest job. */
  readonly since: Date
}

export interface QueueState {
  /** Due for long, and whether another job of the queue has started since or is active. */
  readonly waiting: readonly (Backlog & { readonly isWorkedOn: boolean })[]
  /** Whether any job of any queue has started since or is active. */
  readonly isWorking: boolean
  /** Counted as active, by a worker without a heartbeat. */
  readonly silent: readonly Backlog[]
  /** By their former queue, with the number of the last day and the time of the newest: failed permanently, or of an unknown queue. */
  readonly deadLetters: readonly (Backlog & {
    readonly recent: number
    readonly last: Date
    readonly isOrphaned: boolean
  })[]
  /** Queues without the schedule that this process registers and another process maintains. */
  readonly unscheduled: readonly string[]
}

/** A job that failed permanently, or whose queue no process knows. */
export interface DeadJob {
  readonly id: string
  /** Its former queue. */
  readonly queue: string
  readonly tenantId: string | null
  readonly data: unknown
  /** Code of its last failure. */
  readonly error: string | null
  readonly attempts: number
  readonly isOrphaned: boolean
  /** Time of the last failure, in whole milliseconds. */
  readonly createdAt: Date
}

export interface DeadJobFilter {
  readonly queue?: string | undefined
  readonly tenantId?: string | undefined
}

/** All dead letters of the backoffice. */
export interface DeadJobs {
  /** The newest first, after a sort key. */
  list(
    filter: DeadJobFilter,
    after: { readonly createdAt?: string; readonly id?: string },
    limit: number,
  ): Promise<DeadJob[]>
  /** Removes it. Undefined if it does not exist. */
  take(id: string): Promise<DeadJob | undefined>
  find(id: string): Promise<DeadJob | undefined>
  /** Sends it again, in the transaction that has taken it. A waiting job of the same key replaces it. False: no handler is known. */
  send(dead: DeadJob): Promise<boolean>
}

export interface Jobs {
  readonly deadJobs: DeadJobs
  send<Type extends JobType>(type: Type, data: z.input<Type['data']>, options?: SendOptions): Promise<void>
  /** As `send` for each, in one statement. */
  sendAll<Type extends JobType>(type: Type, jobs: readonly Sending<z.input<Type['data']>>[]): Promise<void>
  /** Whether a job of this type and key is waiting or active. */
  isPending(type: JobType, key: string): Promise<boolean>
  /** Removes waiting jobs of a type and key; an active one continues. */
  cancel(type: JobType, key: string): Promise<void>
  /** Removes all data about a tenant's jobs. */
  forget(tenantId: string): Promise<void>
  /** Number of jobs of a tenant in any state, with dead letters. */
  countOf(tenantId: string): Promise<number>
  counts(tenantId?: string): Promise<QueueCounts[]>
  /** State of all queues for the doctor. @param lateMs maximum normal wait of a due job */
  state(lateMs: number): Promise<QueueState>
  /** Creates the schedules that `state` reports as missing; returns their queues. */
  scheduleMissing(): Promise<string[]>
}

/** Counts a queue other than those of jobs. */
export type CountQueues = (tenantId?: string) => Promise<QueueCounts[]>

/** A driver of the job queue. The composition starts it with all registered jobs. */
export interface JobRunner extends Jobs {
  /** Adds a count to `counts`. */
  alsoCount(count: CountQueues): void
  /** Creates the queues, and records the known ones. */
  start(registered: RegisteredJobs, options: StartOptions): Promise<void>
  /** Stops taking jobs and waits for active ones, at most `timeoutMs`. */
  stop(timeoutMs: number): Promise<void>
}

export interface StartOptions {
  /** Whether it takes jobs. */
  readonly work: boolean
  /** Whether it maintains the schedule, and removes queues that no process knows. */
  readonly keep: boolean
  /** Whether it creates the queues and records them; default true. Otherwise the jobs of other processes can be read. */
  readonly canWrite?: boolean
}

export interface RegisteredJobs {
  readonly types: readonly JobType[]
  readonly handlers: ReadonlyMap<string, (data: any, attempt: Attempt) => Promise<void>>
  readonly schedule: readonly Recurring[]
}

export const jobType = <Name extends string, Data extends z.ZodType>(type: JobType<Name, Data>): JobType<Name, Data> =>
  type

export const handles = <Service, Type extends JobType>(
  type: Type,
  handle: (service: Service, data: z.output<Type['data']>, attempt: Attempt) => Promise<void>,
): Job<Service> => ({ type, handle })
