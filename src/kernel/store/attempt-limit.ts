/**
 * Limits attempts of a key (a client's address, a token) over all processes.
 *
 *   attempt ──► counted in the store ──► up to `max`: permitted
 *                                   └──► more: rejected, until `windowSeconds` after the last counted attempt
 *
 * - The window slides: attempts that continue in several processes extend it. For a fixed window, the key has the number of the window.
 * - The store adds and returns the count in one step, so concurrent attempts are counted exactly.
 * - A process remembers rejected keys: their further attempts do not reach the store.
 * - Each process counts its own attempts too. While the store is unavailable, this count decides.
 */
import { LRUCache } from 'lru-cache'
import type { Clock } from '../base/clock.ts'
import { DependencyUnavailable } from '../base/errors.ts'
import type { Resilience } from '../resilience/resilience.ts'
import type { Store } from './store.ts'

const MAX_REMEMBERED = 10_000

export interface AttemptLimitOptions {
  /** For reports of an unavailable store: `signIn.limit`. */
  readonly operation: string
  readonly max: number
  readonly windowSeconds: number
}

/** Members of the kernel. */
interface AttemptLimitPorts {
  readonly store: Pick<Store, 'increment'>
  readonly clock: Clock
  readonly resilience: Pick<Resilience, 'report'>
}

interface Counted {
  readonly count: number
  readonly untilMs: number
}

export class AttemptLimit {
  readonly #kernel: AttemptLimitPorts
  readonly #options: AttemptLimitOptions
  /** End of the rejection of each key, in ms. */
  readonly #rejectedUntil = new LRUCache<string, number>({ maxSize: MAX_REMEMBERED, sizeCalculation: () => 1 })
  /** Attempts in this process. */
  readonly #own = new LRUCache<string, Counted>({ maxSize: MAX_REMEMBERED, sizeCalculation: () => 1 })

  constructor(kernel: AttemptLimitPorts, options: AttemptLimitOptions) {
    this.#kernel = kernel
    this.#options = options
  }

  /** Counts an attempt. Returns the seconds of its rejection, 0 if it is permitted. */
  async count(key: string): Promise<number> {
    const { max, windowSeconds } = this.#options
    const leftMs = (this.#rejectedUntil.get(key) ?? 0) - this.#nowMs()
    if (leftMs > 0) return leftMs / 1_000
    const own = this.#countOwn(key)
    if ((await this.#increment(key, own)) <= max) return 0
    // The time is read after the store call, so the rejection does not end before the counter expires.
    this.#rejectedUntil.set(key, this.#nowMs() + windowSeconds * 1_000)
    return windowSeconds
  }

  #nowMs(): number {
    return this.#kernel.clock.now().getTime()
  }

  #countOwn(key: string): number {
    const now = this.#nowMs()
    const last = this.#own.get(key)
    const count = last && last.untilMs > now ? last.count + 1 : 1
    this.#own.set(key, { count, untilMs: now + this.#options.windowSeconds * 1_000 })
    return count
  }

  async #increment(key: string, own: number): Promise<number> {
    const { store, resilience } = this.#kernel
    const { operation, windowSeconds } = this.#options
    try {
      return await store.increment(null, key, 1, windowSeconds)
    } catch (error) {
      if (!DependencyUnavailable.matches(error)) throw error
      resilience.report(
        { dependency: 'redis', operation, tenantId: null, policy: 'fail-open', errorCode: error.code },
        error,
      )
      return own
    }
  }
}
