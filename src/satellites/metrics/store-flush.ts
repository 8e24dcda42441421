/**
 * Flushes the counts of this process to the store.
 *
 *  counters ──take──► batches ──add──► the store
 *                        ▲  └──no answer──┐
 *                        └────────────────┘
 *
 * A batch stays what it is until the store has taken it, and the store takes it once: so nothing is lost or counted twice while the
 * store is away, slow, or has done what it could not answer. Meanwhile tallies go on being summed up, and are taken when no batch
 * is left; so what is kept is bounded. A batch of a day that nobody writes down any more is dropped, which the log says.
 */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { dayOf } from '../../kernel/store/counters.ts'
import type { SumBatch } from '../../kernel/store/sums.ts'
import type { LocalCounters } from './local-counters.ts'

/** Until the end of which day after its own a count may still be flushed. */
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

  /** Resolves when all is in the store that was counted before; rejects when it is kept for another time. */
  run(): Promise<void> {
    // Who asks while one is under way shares the next: it takes whatever was counted by then.
    this.#next ??= this.#last.then(() => {
      this.#next = undefined
      const run = this.#run()
      this.#last = run.catch(() => undefined)
      return run
    })
    return this.#next
  }

  /** Of what is kept, in words for the log. */
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

  /** What there was no room for, since this was told last. */
  reportDropped(): void {
    const dropped = this.#localCounters.dropped()
    if (dropped > 0) this.#kernel.log.warn({ dropped, ...this.kept }, 'more was to be counted than there is room for')
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
          // What it cannot keep at all it never will; with anything else it may be luckier, and a batch is taken once.
          if (!InvalidRequest.matches(error)) throw error
          log.error({ err: error, day: next.batch.day }, 'the store refuses counts; they are dropped')
        }
      }
      this.#waiting.shift()
    }
  }

  #isTooLate({ day }: Waiting): boolean {
    return day < dayOf(this.#kernel.clock.now().getTime()) - MAX_DAYS_LATE
  }
}
