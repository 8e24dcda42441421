/**
 * Dead letters: jobs that failed permanently, or whose queue no process knows. They are never retried automatically.
 */
import { z } from 'zod'
import { NEWEST_FIRST, type PageOf, type PageOptions } from '../kernel/api/page.ts'
import { defineError } from '../kernel/base/errors.ts'
import { isUuid } from '../kernel/base/ids.ts'
import { recordChange } from '../kernel/events/changes.ts'
import type { DeadJob, DeadJobFilter } from '../kernel/jobs/jobs.ts'
import type { Kernel } from '../kernel/kernel.ts'

export const DeadLetterNotFound = defineError('E_DEAD_LETTER_NOT_FOUND', 404, 'Dead letter not found')
export const DeadLetterOrphaned = defineError('E_DEAD_LETTER_ORPHANED', 409, 'The queue of the job is unknown')

export const DeadLetter = z
  .object({
    id: z.uuid(),
    queue: z.string().meta({ description: 'Queue of the job', example: 'tenantry.InstallTenant' }),
    tenantId: z.string().nullable(),
    reason: z.enum(['failed', 'orphaned']).meta({
      description: '`failed`: after its last attempt. `orphaned`: for a week no process knew its queue',
    }),
    error: z
      .string()
      .nullable()
      .meta({ description: 'Code of the last failure, or a message of the queue; the log has the cause' }),
    attempts: z.int(),
    createdAt: z.iso.datetime().meta({ description: 'Time at which it became a dead letter' }),
  })
  .meta({ id: 'DeadLetter' })
export type DeadLetter = z.output<typeof DeadLetter>

export const DeadLetterDetail = DeadLetter.extend({
  data: z.unknown().meta({ description: 'Data of the job' }),
}).meta({ id: 'DeadLetterDetail' })

export class DeadLetters {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  list({ limit, cursor, queue, tenantId }: DeadJobFilter & PageOptions = {}): Promise<PageOf<DeadLetter>> {
    const { cursors, jobs } = this.#kernel
    return cursors.keysetPage<DeadJob, DeadLetter, 'createdAt' | 'id'>(
      (after, most) => jobs.deadJobs.list({ queue, tenantId }, after, most),
      { name: 'deadLetters', filters: [queue, tenantId], order: NEWEST_FIRST, item: toDeadLetter },
      { limit, cursor },
    )
  }

  /** `E_DEAD_LETTER_NOT_FOUND` */
  async get(id: string): Promise<z.output<typeof DeadLetterDetail>> {
    const dead = isUuid(id) ? await this.#kernel.jobs.deadJobs.find(id) : undefined
    if (!dead) throw notFound(id)
    return { ...toDeadLetter(dead), data: dead.data }
  }

  /** Sends the job again, with all attempts. `E_DEAD_LETTER_NOT_FOUND`, or `E_DEAD_LETTER_ORPHANED` without a handler. */
  retry(id: string): Promise<void> {
    return this.#end(id, 'deadLetters.retry', async (dead) => {
      if (await this.#kernel.jobs.deadJobs.send(dead)) return
      throw DeadLetterOrphaned(
        `No handler of ${dead.queue} is registered. Enable its satellite, or run the release that has it, then try again.`,
      )
    })
  }

  /** Deletes it: the job never runs. `E_DEAD_LETTER_NOT_FOUND` */
  delete(id: string): Promise<void> {
    return this.#end(id, 'deadLetters.delete')
  }

  /** Only one of several concurrent calls takes it. */
  #end(id: string, action: string, work?: (dead: DeadJob) => Promise<void>): Promise<void> {
    const { database, events, jobs } = this.#kernel
    return database.transaction(async () => {
      const dead = isUuid(id) ? await jobs.deadJobs.take(id) : undefined
      if (!dead) throw notFound(id)
      await work?.(dead)
      const { tenantId, queue } = dead
      await recordChange(events, { action, tenantId, target: `deadLetter:${id}`, before: { queue } })
    })
  }
}

const notFound = (id: string) => DeadLetterNotFound(`Dead letter "${id}" not found.`)

const toDeadLetter = ({ id, queue, tenantId, isOrphaned, error, attempts, createdAt }: DeadJob): DeadLetter => ({
  id,
  queue,
  tenantId,
  reason: isOrphaned ? 'orphaned' : 'failed',
  error,
  attempts,
  createdAt: createdAt.toISOString(),
})
