/**
 * Whether a dependency that has failed is worth asking again, for those who would else all wait for it one after the other:
 *
 *   none ──failed()──► on: nobody asks ──a second later──► one tries, the others do not wait ──answered()──► none
 *                       ▲                                    │
 *                       └──────────────failed()──────────────┘
 */
const RETRY_MS = 1_000

export class Outage {
  #retryAt = Number.NEGATIVE_INFINITY
  #isOn = false
  #isTrying = false

  get isOn(): boolean {
    return this.#isOn
  }

  /** Always, unless there is an outage: then once a second, by whoever comes first and says `trying`. */
  get mayTry(): boolean {
    return !this.#isOn || (!this.#isTrying && performance.now() >= this.#retryAt)
  }

  trying(): void {
    this.#isTrying = this.#isOn
  }

  /** Returns whether this is news. */
  failed(): boolean {
    const isNews = !this.#isOn
    this.#isOn = true
    this.#isTrying = false
    this.#retryAt = performance.now() + RETRY_MS
    return isNews
  }

  answered(): void {
    this.#isOn = false
    this.#isTrying = false
  }
}
