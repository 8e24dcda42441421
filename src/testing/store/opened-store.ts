/** Store under test, with control of its clock. */
import { DAY_MS } from '../../kernel/store/counters.ts'
import type { Store } from '../../kernel/store/store.ts'

export interface OpenedStore {
  /** Closed by the suite. */
  readonly store: Store
  /** Moves the store's own clock forward. */
  advance(ms: number): void | Promise<void>
  /** Removes resources that `open` created in addition to the store. */
  cleanUp?(): Promise<void>
}

/**
 * Moves the store's clock to noon of the next day, so that no test crosses midnight by accident. Returns the
 * difference.
 */
export async function moveToNoon({ store, advance }: OpenedStore): Promise<number> {
  const { nowMs } = await store.counters.read('any', 'any')
  const ms = DAY_MS + DAY_MS / 2 - (nowMs % DAY_MS)
  await advance(ms)
  return ms
}
