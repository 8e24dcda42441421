/**
 * Which tenants have series of their own: `metrics.maxTenantSeries` of them, first come, in all series alike, and they keep
 * them while the process lives. The others are summed up under `_other`, and counted.
 */
export const OTHERS = '_other'

export class TenantLabels {
  readonly #max: number
  readonly #own = new Set<string>()
  readonly #others = new Set<string>()

  constructor(max: number) {
    this.#max = max
  }

  /** What stands for the tenant in `tenant_id`: its id, or `_other`. */
  of(tenantId: string): string {
    if (this.#own.has(tenantId)) return tenantId
    if (this.#own.size < this.#max) {
      this.#own.add(tenantId)
      return tenantId
    }
    this.#others.add(tenantId)
    return OTHERS
  }

  /** For what must not be lost in a sum (an open circuit): from now on the tenant has series of its own, limit or not. */
  keep(tenantId: string): void {
    this.#others.delete(tenantId)
    this.#own.add(tenantId)
  }

  /** How many tenants are counted under `_other`. */
  get dropped(): number {
    return this.#others.size
  }
}
