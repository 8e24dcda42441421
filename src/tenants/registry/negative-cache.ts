/**
 * Remembers unknown ids and domains, and those of deleted tenants, for one second each.
 *
 * - Probing must not distinguish the two by response or time: deleted tenants are cached here for the same time, need
 *   the same number of reads, and are equally unknown while the database is unavailable. Only the read itself may
 *   differ.
 * - Invented names neither cause a read per repetition nor evict tenants, which have a separate cache.
 * - A creation is a change and invalidates its entry. The second limits the error of a process that cannot receive
 *   notifications.
 */
import { LRUCache } from 'lru-cache'

const KEPT = 10_000
const KEPT_MS = 1_000

export interface NegativeEntry<Located> {
  /** The deleted tenant; undefined for an unknown id or domain. */
  readonly located: Located | undefined
  /** Sequence number of the read, in start order. */
  readonly read: number
}

interface Kept<Located> extends NegativeEntry<Located> {
  readonly until: number
  readonly generation: number
}

export class NegativeCache<Located> {
  readonly #kept = new LRUCache<string, Kept<Located>>({ maxSize: KEPT, sizeCalculation: () => 1 })
  #generation = 0

  get(name: string): NegativeEntry<Located> | undefined {
    const kept = this.#kept.get(name)
    return kept && kept.generation === this.#generation && performance.now() < kept.until ? kept : undefined
  }

  set(name: string, entry: NegativeEntry<Located>): void {
    this.#kept.set(name, { ...entry, until: performance.now() + KEPT_MS, generation: this.#generation })
  }

  forget(name: string): void {
    this.#kept.delete(name)
  }

  forgetAll(): void {
    this.#generation++
  }
}
