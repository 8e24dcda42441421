/**
 * Counts that go to the store before whoever counts goes on: those of one moment together. What fails is not tried again, and its
 * callers are told: whether it was counted is not known then.
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
