/**
 * Batches concurrent calls: items that arrive during a run wait for the next run. A single item does not wait.
 * `run` returns a result for each item in order. If it throws, all items of the batch fail. It runs outside the callers' contexts.
 */
import { asSystem } from './context.ts'

export interface BatcherOptions<Item> {
  /** Maximum number of items in a batch. */
  readonly maxItems: number
  /** Weight of an item, and the maximum weight of a batch; default: no limit by weight. */
  readonly weight?: { readonly of: (item: Item) => number; readonly maxWeight: number }
}

interface Waiting<Item, Result> {
  readonly item: Item
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export class Batcher<Item, Result> {
  readonly #run: (items: readonly Item[]) => Promise<readonly Result[]>
  readonly #options: BatcherOptions<Item>
  #waiting: Waiting<Item, Result>[] = []
  #working: Promise<void> | undefined

  constructor(run: (items: readonly Item[]) => Promise<readonly Result[]>, options: BatcherOptions<Item>) {
    this.#run = run
    this.#options = options
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      this.#working ??= asSystem(() => this.#work())
    })
  }

  /** Resolves when no item waits. */
  async idle(): Promise<void> {
    await this.#working
  }

  async #work(): Promise<void> {
    await null // what the same turn asks for goes together
    while (this.#waiting.length > 0) {
      const batch = this.#take()
      try {
        const results = await this.#run(batch.map(({ item }) => item))
        for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#working = undefined
  }

  #take(): Waiting<Item, Result>[] {
    const { maxItems, weight } = this.#options
    let count = 0
    let weighed = 0
    for (const { item } of this.#waiting) {
      weighed += weight?.of(item) ?? 0
      if (count === maxItems || (count > 0 && weight && weighed > weight.maxWeight)) break
      count += 1
    }
    return this.#waiting.splice(0, count)
  }
}
