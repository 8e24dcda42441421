/**
 * Tenants that dunning has suspended. A case says when it did so, for as long as the suspension is its own: a tenant is activated again
 * only where nobody has touched it since, nor wanted it suspended as well; one that is deleted by then, when it is back. A tenant that
 * is not there to be suspended when it should be, is when it is; not one that somebody has activated since it was.
 */
import { tenantStatus } from '../../../tenants/registry/tenant-assertions.ts'
import { type BillingDependencies, queryOf } from '../model/dependencies.ts'
import type { DunningRow } from '../model/tables.ts'

/** Those that are not over, the latest first. */
export const openCases = (dependencies: BillingDependencies, tenantId: string): Promise<DunningRow[]> =>
  queryOf(dependencies)
    .selectFrom('billingDunning')
    .selectAll()
    .where('tenantId', '=', tenantId)
    .where('closedAt', 'is', null)
    .where('state', '!=', 'recovered')
    .orderBy('periodEnd', 'desc')
    .execute()

export class DunningSuspensions {
  readonly #dependencies: BillingDependencies

  constructor(dependencies: BillingDependencies) {
    this.#dependencies = dependencies
  }

  async begin(row: DunningRow): Promise<void> {
    const { kernel, tenants } = this.#dependencies
    const status = await tenantStatus(kernel.database, row.tenantId)
    if (status !== 'active') return this.#set(row, { isSuspensionDue: status !== 'suspended' })
    const { changed, tenant } = await tenants.suspend(row.tenantId)
    if (changed && tenant.suspendedAt) await this.#give(row, new Date(tenant.suspendedAt))
  }

  /** Of one case; another of the tenant that is not over goes on with it. */
  async end(row: DunningRow): Promise<void> {
    const { suspendedAt: since } = row
    if (since === null) return
    const { kernel, tenants } = this.#dependencies
    const status = await tenantStatus(kernel.database, row.tenantId)
    if (status === 'deleted' || !(await this.#take(row))) return
    const others = await openCases(this.#dependencies, row.tenantId)
    const stillSuspending = others.find(({ state }) => state === 'suspended')
    if (stillSuspending) return this.#give(stillSuspending, since)
    if (status !== 'suspended') return
    const { suspendedAt } = await tenants.get(row.tenantId)
    // Suspended at another time is suspended by somebody else.
    if (suspendedAt === since.toISOString()) await tenants.activate(row.tenantId)
  }

  /** Somebody wants a tenant suspended, or active, whatever dunning wants. */
  async yield(tenantId: string): Promise<void> {
    await queryOf(this.#dependencies)
      .updateTable('billingDunning')
      .set({ suspendedAt: null, isSuspensionDue: false })
      .where('tenantId', '=', tenantId)
      .where(({ or, eb }) => or([eb('suspendedAt', 'is not', null), eb('isSuspensionDue', '=', true)]))
      .execute()
  }

  #give(row: DunningRow, suspendedAt: Date): Promise<void> {
    return this.#set(row, { suspendedAt, isSuspensionDue: false })
  }

  async #set({ subscriptionId, periodEnd }: DunningRow, set: Partial<DunningRow>): Promise<void> {
    await queryOf(this.#dependencies)
      .updateTable('billingDunning')
      .set(set)
      .where('subscriptionId', '=', subscriptionId)
      .where('periodEnd', '=', periodEnd)
      .execute()
  }

  /** False when somebody else wants it suspended by now. */
  async #take({ subscriptionId, periodEnd }: DunningRow): Promise<boolean> {
    const taken = await queryOf(this.#dependencies)
      .updateTable('billingDunning')
      .set({ suspendedAt: null })
      .where('subscriptionId', '=', subscriptionId)
      .where('periodEnd', '=', periodEnd)
      .where('suspendedAt', 'is not', null)
      .returning('tenantId')
      .executeTakeFirst()
    return taken !== undefined
  }
}
