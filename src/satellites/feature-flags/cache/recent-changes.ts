/** Time of the last received change of a tenant: exact for recent ones, an upper bound for all others. */
const REMEMBERED = 10_000

export class RecentChanges {
  readonly #max: number
  /** The oldest first. */
  readonly #receivedAt = new Map<string, number>()
  #othersAt = Number.NEGATIVE_INFINITY

  constructor(max = REMEMBERED) {
    this.#max = max
  }

  /** On the clock of `performance.now()`; possibly later than the change, never earlier. */
  at(tenantId: string): number {
    return this.#receivedAt.get(tenantId) ?? this.#othersAt
  }

  record(tenantId: string): void {
    this.#receivedAt.delete(tenantId)
    this.#receivedAt.set(tenantId, performance.now())
    if (this.#receivedAt.size <= this.#max) return
    for (const [oldest, at] of this.#receivedAt) {
      this.#othersAt = at
      this.#receivedAt.delete(oldest)
      return
    }
  }
}
