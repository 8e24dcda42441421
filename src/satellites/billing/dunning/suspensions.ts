/**
 * Suspends and activates tenants for dunning.
 *
 * - A case stores `suspendedAt` as long as the suspension belongs to it. Its end activates the tenant only if no
 *   operator has changed the suspension since.
 * - A deleted tenant is activated or suspended when it is restored. A tenant that is not active yet is suspended when
 *   it becomes active, unless an operator has activated it since.
 */
import { tenantStatus } from '../../../tenants/registry/tenant-assertions.ts'
import { type BillingDependencies, queryOf } from '../model/dependencies.ts'
import type { DunningRow } from '../model/tables.ts'

/** Open cases of the tenants, latest period first. */
export const openCases = (dependencies: BillingDependencies, tenantIds: readonly string[]): Promise<DunningRow[]> =>
  queryOf(dependencies)
    .selectFrom('billingDunning')
    .selectAll()
    .where('tenantId', 'in', tenantIds)
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

  /** Ends the suspension of one case. Another suspending case of the tenant takes over the suspension. */
  async end(row: DunningRow): Promise<void> {
    const { suspendedAt: since } = row
    if (since === null) return
    const { kernel, tenants } = this.#dependencies
    const status = await tenantStatus(kernel.database, row.tenantId)
    if (status === 'deleted' || !(await this.#take(row))) return
    const others = await openCases(this.#dependencies, [row.tenantId])
    const stillSuspending = others.find(({ state }) => state === 'suspended')
    if (stillSuspending) return this.#give(stillSuspending, since)
    if (status !== 'suspended') return
    const { suspendedAt } = await tenants.get(row.tenantId)
    // A different time means a suspension by an operator.
    if (suspendedAt === since.toISOString()) await tenants.activate(row.tenantId)
  }

  /** An operator suspends or activates the tenant, which overrides dunning. */
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

  /** Returns false if the suspension no longer belongs to the case. */
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
