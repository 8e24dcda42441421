/**
 * Work that outlives a request. A job type is a value, `send` puts one into the queue inside the transaction in progress (so
 * it exists exactly when the change does), and a satellite says what happens with `handles`.
 *
 * Every job may run twice and must not mind. It carries its tenant, so that one tenant's flood does not starve another; it has
 * a heartbeat, a retry limit, and a dead letter queue where it lands when all attempts are used.
 */
import type { z } from 'zod'

export interface JobType<Name extends string = string, Data extends z.ZodType = z.ZodType> {
  readonly name: Name
  readonly summary: string
  readonly data: Data
  /** Attempts after the first; default 3. */
  readonly retries?: number
  /** Seconds before the first retry, doubled each time; default 1. */
  readonly retryDelaySeconds?: number
  /** Seconds before a later one at most; default 86,400. */
  readonly retryDelayMaxSeconds?: number
  /** Seconds one attempt may take; default 900. */
  readonly timeoutSeconds?: number
  /** Jobs of this type that one process works on at a time; default 4. */
  readonly workers?: number
  /** Jobs of one tenant at a time over all processes, a soft cap; default 2. */
  readonly perTenant?: number
}

export interface Attempt {
  /** 1 for the first. */
  readonly number: number
  readonly isLast: boolean
  /** Aborts when the attempt's time is up or the worker stops. */
  readonly signal: AbortSignal
}

export interface Job<Service = any> {
  readonly type: JobType
  readonly handle: (service: Service, data: any, attempt: Attempt) => Promise<void>
}

/** A job sent by the clock, once over all processes. Cron in UTC, five fields. */
export interface Recurring {
  readonly type: JobType
  readonly cron: string
}

export interface SendOptions {
  /** The tenant the job is for: fairness, and removal when the tenant is purged. */
  readonly tenantId?: string
  /** Of this type and key at most one waits: another send is dropped, unless the one before is already worked on. */
  readonly key?: string
  readonly afterSeconds?: number
}

/** One of many jobs that are sent together. */
export interface Sending<Data> extends SendOptions {
  readonly data: Data
}

/** Jobs by queue and state, in the words of section 5 of the contract. */
export interface QueueCounts {
  readonly queue: string
  readonly tenantId: string | null
  readonly waiting: number
  readonly active: number
  readonly completed: number
  readonly failed: number
  readonly delayed: number
}

/** Jobs of one queue that are not as they should be. */
export interface Backlog {
  readonly queue: string
  readonly count: number
  /** Of the oldest one. */
  readonly since: Date
}

export interface QueueState {
  /** Due for long; and whether one of that queue was begun meanwhile, or is being worked on. */
  readonly waiting: readonly (Backlog & { readonly isWorkedOn: boolean })[]
  /** Whether any job of any queue was. */
  readonly isWorking: boolean
  /** Counted as being worked on, by a worker that has fallen silent. */
  readonly silent: readonly Backlog[]
  /** By the queue that they came from, with the time of the newest: given up, or left when nobody knew their queue any more. */
  readonly deadLetters: readonly (Backlog & { readonly last: Date; readonly isOrphaned: boolean })[]
  /** Queues to which the clock should send jobs, as this process has them registered and another keeps them, and does not. */
  readonly unscheduled: readonly string[]
}

export interface Jobs {
  send<Type extends JobType>(type: Type, data: z.input<Type['data']>, options?: SendOptions): Promise<void>
  /** The same as `send` for each, in one statement. */
  sendAll<Type extends JobType>(type: Type, jobs: readonly Sending<z.input<Type['data']>>[]): Promise<void>
  /** Whether a job of this type and key is waiting or active. */
  isPending(type: JobType, key: string): Promise<boolean>
  /** Removes waiting jobs of a type and key; one that is being worked on goes on. */
  cancel(type: JobType, key: string): Promise<void>
  /** Removes everything that is kept of a tenant's jobs. */
  forget(tenantId: string): Promise<void>
  counts(tenantId?: string): Promise<QueueCounts[]>
  /** Of all queues, for the doctor. @param lateMs how long a job that is due may wait */
  state(lateMs: number): Promise<QueueState>
  /** Schedules what `state` tells as unscheduled; returns the queues. */
  scheduleMissing(): Promise<string[]>
}

/** Counts a queue that is none of jobs. */
export type CountQueues = (tenantId?: string) => Promise<QueueCounts[]>

/** A driver of jobs: what composes a tenancy starts it with everything that can be worked on. */
export interface JobRunner extends Jobs {
  /** From now on `counts` has these, too. */
  alsoCount(count: CountQueues): void
  /** Makes the queues, and notes what it knows. */
  start(registered: RegisteredJobs, options: StartOptions): Promise<void>
  /** Stops taking jobs and waits for those in progress, at most `timeoutMs`. */
  stop(timeoutMs: number): Promise<void>
}

export interface StartOptions {
  /** Takes jobs. */
  readonly work: boolean
  /** Keeps the schedule, and sorts out what nobody knows any more. */
  readonly keep: boolean
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
