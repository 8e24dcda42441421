/** When a tenant's flags were last heard to change: exactly for those that changed last, at the latest for all others. */
const REMEMBERED = 10_000

export class RecentChanges {
  readonly #max: number
  /** The oldest first. */
  readonly #receivedAt = new Map<string, number>()
  #othersAt = Number.NEGATIVE_INFINITY

  constructor(max = REMEMBERED) {
    this.#max = max
  }

  /** As `performance.now()` tells time; later than it was where that is not remembered, never earlier. */
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
