/** A store under test. */
import { DAY_MS } from '../../kernel/store/counters.ts'
import type { Store } from '../../kernel/store/store.ts'

export interface OpenedStore {
  /** Closed by the suite. */
  readonly store: Store
  /** Moves the store's own clock forward. */
  advance(ms: number): void | Promise<void>
  /** Removes what `open` made beside the store. */
  cleanUp?(): Promise<void>
}

/** Moves the store's clock to noon of the next day, so that no midnight passes where a test does not expect it. Returns the difference. */
export async function moveToNoon({ store, advance }: OpenedStore): Promise<number> {
  const { nowMs } = await store.counters.read('any', 'any')
  const ms = DAY_MS + DAY_MS / 2 - (nowMs % DAY_MS)
  await advance(ms)
  return ms
}
