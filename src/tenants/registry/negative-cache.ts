/**
 * Ids or domains of which it is known that there is no tenant of that name, or that it is deleted, for a second each.
 *
 * Whoever probes must not tell the two apart, not by the answer and not by the time that it takes: so what is deleted is kept
 * here, as long as what never was and no longer, costs a read as often, and is as unknown while the database is away. What is
 * left of a difference is that a row is found by that read.
 *
 * That many names are made up neither costs a read each time one is repeated nor drives tenants out, who are kept apart. Who is
 * created is known at once all the same, since that is a change; the second bounds what is missed by a process that cannot hear.
 */
import { LRUCache } from 'lru-cache'

const KEPT = 10_000
const KEPT_MS = 1_000

export interface NegativeEntry<Located> {
  /** The tenant that is deleted; undefined when there is none. */
  readonly located: Located | undefined
  /** Which read it is from, in the order in which they began. */
  readonly read: number
}

interface Kept<Located> extends NegativeEntry<Located> {
  readonly until: number
  readonly generation: number
}

export class NegativeCache<Located> {
  readonly #kept = new LRUCache<string, Kept<Located>>({ max: KEPT })
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
