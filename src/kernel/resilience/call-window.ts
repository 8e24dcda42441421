/**
 * Counts the failed calls of the last seconds in ten slots, without a timer. A window of 10 s covers the last 9 to 10 seconds.
 * cockatiel's SamplingBreaker drops one slot at a time: after an idle hour it still counts failures from before.
 */
const SLOTS = 10

export class CallWindow {
  readonly #slotMs: number
  /** Successes of each slot, then failures of each slot. */
  readonly #counts: number[] = new Array(2 * SLOTS).fill(0)
  #newest = 0
  #successes = 0
  #failures = 0

  constructor(windowMs: number) {
    this.#slotMs = windowMs / SLOTS
  }

  succeeded(nowMs: number): void {
    const slot = this.#slotAt(nowMs)
    this.#counts[slot] = (this.#counts[slot] ?? 0) + 1
    this.#successes++
  }

  failed(nowMs: number): void {
    const slot = SLOTS + this.#slotAt(nowMs)
    this.#counts[slot] = (this.#counts[slot] ?? 0) + 1
    this.#failures++
  }

  /** Whether at least `minimumCalls` were counted, of which the share `threshold` failed. Ask it after a call is counted. */
  isFailing(threshold: number, minimumCalls: number): boolean {
    const calls = this.#successes + this.#failures
    return calls >= minimumCalls && this.#failures >= threshold * calls
  }

  clear(): void {
    this.#counts.fill(0)
    this.#successes = 0
    this.#failures = 0
  }

  #slotAt(nowMs: number): number {
    const now = Math.floor(nowMs / this.#slotMs)
    if (now !== this.#newest) this.#moveTo(now)
    return now % SLOTS
  }

  /** Counting starts again if the clock was set back. */
  #moveTo(now: number): void {
    if (now < this.#newest) this.clear()
    for (let slot = this.#newest + 1; slot <= now && this.#successes + this.#failures > 0; slot++) {
      this.#successes -= this.#counts[slot % SLOTS] ?? 0
      this.#failures -= this.#counts[SLOTS + (slot % SLOTS)] ?? 0
      this.#counts[slot % SLOTS] = 0
      this.#counts[SLOTS + (slot % SLOTS)] = 0
    }
    this.#newest = now
  }
}
