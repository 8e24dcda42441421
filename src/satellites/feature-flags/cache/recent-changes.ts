/** When a tenant's flags were last heard to change: exactly for those that changed last, at the latest for all others. */
const REMEMBERED = 10_000

export class RecentChanges {
  readonly #max: number
  /** The oldest first. */
  readonly #heardAt = new Map<string, number>()
  #othersAt = Number.NEGATIVE_INFINITY

  constructor(max = REMEMBERED) {
    this.#max = max
  }

  /** As `performance.now()` tells time; later than it was where that is not remembered, never earlier. */
  at(tenantId: string): number {
    return this.#heardAt.get(tenantId) ?? this.#othersAt
  }

  heard(tenantId: string): void {
    this.#heardAt.delete(tenantId)
    this.#heardAt.set(tenantId, performance.now())
    if (this.#heardAt.size <= this.#max) return
    for (const [oldest, at] of this.#heardAt) {
      this.#othersAt = at
      this.#heardAt.delete(oldest)
      return
    }
  }
}
