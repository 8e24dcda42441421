/**
 * Whether a dependency that has failed is worth asking again, for those who would else all wait for it one after the other:
 *
 *   none ──failed()──► active: nobody asks ──a second later──► one tries, the others do not wait ──answered()──► none
 *                       ▲                                    │
 *                       └──────────────failed()──────────────┘
 */
const RETRY_MS = 1_000

export class OutageBackoff {
  #retryAt = Number.NEGATIVE_INFINITY
  #isActive = false
  #isTrying = false

  get isActive(): boolean {
    return this.#isActive
  }

  /** Always, unless there is an outage: then once a second, by whoever comes first and says `trying`. */
  get shouldTry(): boolean {
    return !this.#isActive || (!this.#isTrying && performance.now() >= this.#retryAt)
  }

  trying(): void {
    this.#isTrying = this.#isActive
  }

  /** Returns whether this is news. */
  failed(): boolean {
    const isNews = !this.#isActive
    this.#isActive = true
    this.#isTrying = false
    this.#retryAt = performance.now() + RETRY_MS
    return isNews
  }

  answered(): void {
    this.#isActive = false
    this.#isTrying = false
  }
}
