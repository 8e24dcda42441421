/**
 * Stops callers from waiting for a failed dependency one after the other.
 *
 *   none ──failed()──► active: no caller tries ──a second later──► one tries, the others do not wait ──answered()──► none
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

  /** True without an outage; during one, true once a second for the first caller, which then calls `trying`. */
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
