/**
 * Limits the label `tenant_id` to the first `metrics.maxTenantSeries` tenants of the process, in all series alike. The sum of the other
 * tenants has the label `_other`.
 */
export const OTHERS = '_other'

export class TenantLabels {
  readonly #max: number
  readonly #own = new Set<string>()
  readonly #others = new Set<string>()

  constructor(max: number) {
    this.#max = max
  }

  /** The value of `tenant_id` for a tenant: its id, or `_other`. */
  of(tenantId: string): string {
    if (this.#own.has(tenantId)) return tenantId
    if (this.#own.size < this.#max) {
      this.#own.add(tenantId)
      return tenantId
    }
    this.#others.add(tenantId)
    return OTHERS
  }

  /** Gives a tenant its own series regardless of the limit, for a value that a sum would hide (an open circuit). */
  keep(tenantId: string): void {
    this.#others.delete(tenantId)
    this.#own.add(tenantId)
  }

  /** The number of tenants in `_other`. */
  get dropped(): number {
    return this.#others.size
  }
}
