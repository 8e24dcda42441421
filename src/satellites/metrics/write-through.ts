/**
 * Writes counts to the store before `increment` resolves, with concurrent counts in one batch. A failure is not retried: callers
 * receive the error, and the count may have happened.
 */
import { randomUUID } from 'node:crypto'
import { Batcher } from '../../kernel/base/batcher.ts'
import type { Store } from '../../kernel/store/store.ts'
import type { Addition } from '../../kernel/store/sums.ts'

export interface CountOfDay extends Addition {
  readonly day: string
}

export class WriteThrough {
  readonly #store: Store
  readonly #source = randomUUID()
  readonly #batcher: Batcher<CountOfDay, undefined>
  #number = 0

  constructor(store: Store) {
    this.#store = store
    this.#batcher = new Batcher((counts) => this.#add(counts), { maxItems: store.sums.additionsAtOnce })
  }

  add(count: CountOfDay): Promise<undefined> {
    return this.#batcher.add(count)
  }

  async #add(counts: readonly CountOfDay[]): Promise<readonly undefined[]> {
    for (const [day, additions] of Map.groupBy(counts, (count) => count.day)) {
      this.#number += 1
      await this.#store.sums.add({ day, source: this.#source, number: this.#number, additions })
    }
    return counts.map(() => undefined)
  }
}
