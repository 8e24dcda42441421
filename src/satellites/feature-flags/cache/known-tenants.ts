/**
 * Cached flags by tenant, with one limit for all. Tenants that were requested since the last eviction stay; of the others the oldest is
 * evicted. A request costs one assignment, while a list in the order of use would double the cost of a look-up.
 */

/** Cached flags of one tenant. */
export interface Known {
  readonly entries: { readonly size: number }
  wasRequested: boolean
}

export class KnownTenants<One extends Known> {
  readonly #max: { readonly tenants: number; readonly flags: number }
  /** In the order of insertion, or of the last pass of an eviction. */
  readonly #tenants = new Map<string, One>()
  #flags = 0

  constructor(max: { readonly tenants: number; readonly flags: number }) {
    this.#max = max
  }

  get(tenantId: string): One | undefined {
    const known = this.#tenants.get(tenantId)
    if (known !== undefined) known.wasRequested = true
    return known
  }

  all(): Iterable<One> {
    return this.#tenants.values()
  }

  /** @param known of a new tenant, without entries */
  add(tenantId: string, known: One): void {
    this.#tenants.set(tenantId, known)
    this.#makeRoom(known)
  }

  /** Adds to the number of entries of a tenant, if it is cached. */
  grown(tenantId: string, known: One, by: number): void {
    if (by === 0 || this.#tenants.get(tenantId) !== known) return
    this.#flags += by
    this.#makeRoom(known)
  }

  /** @param newest is not evicted */
  #makeRoom(newest: One): void {
    for (const [tenantId, known] of this.#tenants) {
      if (this.#tenants.size <= this.#max.tenants && this.#flags <= this.#max.flags) return
      if (this.#tenants.size === 1) return
      this.#tenants.delete(tenantId)
      // A tenant that stays is visited again at the end of this loop.
      if (known.wasRequested || known === newest) this.#tenants.set(tenantId, known)
      else this.#flags -= known.entries.size
      known.wasRequested = false
    }
  }
}
