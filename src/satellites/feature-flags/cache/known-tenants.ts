/**
 * What is known of flags, by tenant, within a bound for all together. Who has been asked about since room was last made stays; of
 * the others the oldest goes first. To remember that, an answer costs one assignment, where a list in the order of use would cost
 * as much as the whole rest of looking a flag up.
 */

/** What is known of one tenant. */
export interface Known {
  readonly entries: { readonly size: number }
  wasRequested: boolean
}

export class KnownTenants<One extends Known> {
  readonly #max: { readonly tenants: number; readonly flags: number }
  /** In the order in which they came, or were last spared. */
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

  /** @param known of a tenant of whom nothing was known; it has no entries yet */
  add(tenantId: string, known: One): void {
    this.#tenants.set(tenantId, known)
    this.#makeRoom(known)
  }

  /** So many entries have been added to what is known of a tenant, if it is still known. */
  grown(tenantId: string, known: One, by: number): void {
    if (by === 0 || this.#tenants.get(tenantId) !== known) return
    this.#flags += by
    this.#makeRoom(known)
  }

  /** @param newest for whom room is made */
  #makeRoom(newest: One): void {
    for (const [tenantId, known] of this.#tenants) {
      if (this.#tenants.size <= this.#max.tenants && this.#flags <= this.#max.flags) return
      if (this.#tenants.size === 1) return
      this.#tenants.delete(tenantId)
      // Who is spared comes by again, at the end of this very loop.
      if (known.wasRequested || known === newest) this.#tenants.set(tenantId, known)
      else this.#flags -= known.entries.size
      known.wasRequested = false
    }
  }
}
