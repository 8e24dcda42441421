/**
 * Handles the subscriptions of a tenant that is deleted, restored or purged. Requests to the provider are jobs, so an
 * unavailable provider does not prevent the deletion.
 */
import { tenantStatus } from '../../../tenants/registry/tenant-assertions.ts'
import type { DunningCases } from '../dunning/cases.ts'
import { type BillingDependencies, lockCustomer } from '../model/dependencies.ts'
import { CancelSubscriptions } from '../model/job-types.ts'
import type { Customers } from '../subscriptions/customers.ts'
import { hasEnded, lockPayer, type Subscriptions } from '../subscriptions/subscriptions.ts'
import { type UsageWindows, usageLock } from '../usage/windows.ts'

export class TenantDeletion {
  readonly #dependencies: BillingDependencies
  readonly #customers: Customers
  readonly #subscriptions: Subscriptions
  readonly #windows: UsageWindows
  readonly #dunning: DunningCases

  constructor(
    dependencies: BillingDependencies,
    customers: Customers,
    subscriptions: Subscriptions,
    windows: UsageWindows,
    dunning: DunningCases,
  ) {
    this.#dependencies = dependencies
    this.#customers = customers
    this.#subscriptions = subscriptions
    this.#windows = windows
    this.#dunning = dunning
  }

  /** Runs in the transaction of the deletion. */
  async begin(tenantId: string): Promise<void> {
    const { settings } = this.#dependencies
    const customerId = await this.#customers.of(tenantId)
    if (customerId === undefined) return
    if (settings.onTenantDelete === 'detach') return this.#customers.close(customerId, 'detached')
    await this.cancelOrphaned(customerId)
  }

  /** Repeats `begin` for a checkout that was started before the deletion and paid after it. */
  async beginIfDeleted(tenantId: string): Promise<void> {
    if ((await tenantStatus(this.#dependencies.kernel.database, tenantId)) === 'deleted') await this.begin(tenantId)
  }

  /** Cancels the subscriptions of a customer whose tenant is deleted or purged. */
  async cancelOrphaned(customerId: string): Promise<void> {
    const { settings, kernel } = this.#dependencies
    if (settings.onTenantDelete !== 'cancel') return
    await kernel.jobs.send(CancelSubscriptions, { customerId }, { key: customerId })
  }

  /** Stops if the tenant is restored. Reports usage before each cancellation, so that the last invoice contains it. */
  async cancelAll(customerId: string): Promise<void> {
    const { payments } = this.#dependencies
    if ((await this.#isBack(customerId)) || !(await payments.hasCustomer(customerId))) return
    for await (const subscription of payments.subscriptions(customerId)) {
      if (hasEnded(subscription)) continue
      const tenantId = await this.#customers.tenantOf(customerId)
      if (tenantId !== undefined) await this.#windows.reportNow(tenantId)
      if (await this.#isBack(customerId)) return
      await payments.cancel(subscription.id, { atPeriodEnd: false })
    }
  }

  /**
   * Runs in the transaction of the restoration. Applies plan and dunning state from events that were received during
   * the deletion, and ends the dunning cases of detached subscriptions.
   */
  async restore(tenantId: string): Promise<void> {
    await lockPayer(this.#dependencies, tenantId)
    const detached = await this.#subscriptions.detachedFrom(tenantId)
    for (const { id } of detached) await this.#dunning.end(id)
    await this.#dunning.restore(tenantId)
    const known = await this.#subscriptions.ofTenant(tenantId)
    if (known.length + detached.length > 0) await this.#subscriptions.writePlan(tenantId)
  }

  /** For an erasure: ends the subscriptions as the deletion of the tenant does, without a job that remains. */
  async endSubscriptions(customerId: string): Promise<void> {
    const { settings, kernel } = this.#dependencies
    if (settings.onTenantDelete !== 'cancel') return
    await this.cancelAll(customerId)
    await kernel.jobs.cancel(CancelSubscriptions, customerId)
  }

  /** Runs in the transaction of the purge. The locks wait for processing and usage windows of the tenant. */
  async forget(tenantId: string): Promise<void> {
    const { database } = this.#dependencies.kernel
    for (const customerId of await this.customersOf(tenantId)) await lockCustomer(this.#dependencies, customerId)
    await lockPayer(this.#dependencies, tenantId)
    await database.sql(`select pg_advisory_xact_lock(${usageLock('$1')})`, [tenantId])
    await this.#logUnreported(tenantId)
    await database.sql('delete from multitenancy.billing_inbox where customer_id = any($1) or rejected_for = $2', [
      await this.customersOf(tenantId),
      tenantId,
    ])
  }

  /** Ids at the provider, of all customers that the tenant ever had. */
  async customersOf(tenantId: string): Promise<string[]> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      'select customer_id as "customerId" from multitenancy.billing_customers where tenant_id = $1 order by 1',
      [tenantId],
    )
    return rows.map(({ customerId }) => customerId)
  }

  async #isBack(customerId: string): Promise<boolean> {
    const tenantId = await this.#customers.tenantOf(customerId)
    return tenantId !== undefined && (await tenantStatus(this.#dependencies.kernel.database, tenantId)) !== 'deleted'
  }

  async #logUnreported(tenantId: string): Promise<void> {
    const { database, log } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `select meter, sum(quantity)::float8 as quantity from multitenancy.billing_usage
       where tenant_id = $1 and sent_at is null group by 1`,
      [tenantId],
    )
    for (const row of rows) log.warn({ tenantId, ...row }, 'unreported usage was deleted with its purged tenant')
  }
}
