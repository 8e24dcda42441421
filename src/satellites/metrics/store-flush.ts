/**
 * Flushes the counts of this process to the store.
 *
 *  counters ──take──► batches ──add──► store
 *                        ▲  └──no response──┐
 *                        └──────────────────┘
 *
 * A batch stays unchanged until the store has accepted it, and the store accepts it once. So nothing is lost or counted twice during
 * an outage. Local counters continue and are taken when no batch is left, so memory is limited. Batches of old days are dropped and
 * logged.
 */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { dayOf } from '../../kernel/store/counters.ts'
import type { SumBatch } from '../../kernel/store/sums.ts'
import type { LocalCounters } from './local-counters.ts'

/** Number of days after its own day until whose end a count can be flushed. */
export const MAX_DAYS_LATE = 1

interface Waiting {
  readonly day: number
  readonly batch: SumBatch
}

export class StoreFlush {
  readonly #kernel: Pick<Kernel, 'store' | 'clock' | 'log'>
  readonly #localCounters: LocalCounters
  readonly #source = randomUUID()
  #number = 0
  #waiting: Waiting[] = []
  #last: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(kernel: Pick<Kernel, 'store' | 'clock' | 'log'>, localCounters: LocalCounters) {
    this.#kernel = kernel
    this.#localCounters = localCounters
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#localCounters.isEmpty
  }

  /** Resolves when all earlier counts are in the store; rejects if they are kept for a later flush. */
  run(): Promise<void> {
    // Concurrent callers share the next flush, which takes all counts until then.
    this.#next ??= this.#last.then(() => {
      this.#next = undefined
      const run = this.#run()
      this.#last = run.catch(() => undefined)
      return run
    })
    return this.#next
  }

  /** Sizes of the kept batches, for the log. */
  get kept(): { readonly batches: number; readonly sums: number } {
    const taken = this.#waiting.reduce((sum, { batch }) => sum + batch.additions.length, 0)
    return { batches: this.#waiting.length, sums: taken }
  }

  async #run(): Promise<void> {
    await this.#send()
    this.#take()
    await this.#send()
  }

  #take(): void {
    const { sums } = this.#kernel.store
    for (const { day, date, additions } of this.#localCounters.take()) {
      for (let first = 0; first < additions.length; first += sums.additionsAtOnce) {
        this.#number += 1
        const part = additions.slice(first, first + sums.additionsAtOnce)
        this.#waiting.push({ day, batch: { day: date, source: this.#source, number: this.#number, additions: part } })
      }
    }
    this.reportDropped()
  }

  /** Logs counts that were dropped at the limit since the last call. */
  reportDropped(): void {
    const dropped = this.#localCounters.dropped()
    if (dropped > 0)
      this.#kernel.log.warn({ dropped, ...this.kept }, 'counts were dropped: the limit of distinct sums was reached')
  }

  async #send(): Promise<void> {
    const { store, log } = this.#kernel
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      if (this.#isTooLate(next)) {
        log.error({ day: next.batch.day, sums: next.batch.additions.length }, 'counts of an old day could not be kept')
      } else {
        try {
          await store.sums.add(next.batch)
        } catch (error) {
          // An invalid batch stays invalid. Other errors may be temporary, and a batch is accepted once.
          if (!InvalidRequest.matches(error)) throw error
          log.error({ err: error, day: next.batch.day }, 'the store rejected counts; they are dropped')
        }
      }
      this.#waiting.shift()
    }
  }

  #isTooLate({ day }: Waiting): boolean {
    return day < dayOf(this.#kernel.clock.now().getTime()) - MAX_DAYS_LATE
  }
}
