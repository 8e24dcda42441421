/**
 * What becomes of a tenant's subscriptions when it is deleted. Nothing here keeps it from being deleted, or the provider from being
 * away: what is to be done there is a job.
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

  /** In the transaction of the deletion. */
  async begin(tenantId: string): Promise<void> {
    const { settings } = this.#dependencies
    const customerId = await this.#customers.of(tenantId)
    if (customerId === undefined) return
    if (settings.onTenantDelete === 'detach') return this.#customers.close(customerId, 'detached')
    await this.orphaned(customerId)
  }

  /** A checkout that was begun before the deletion, and paid after it, is cancelled as well. */
  async followed(tenantId: string): Promise<void> {
    if ((await tenantStatus(this.#dependencies.kernel.database, tenantId)) === 'deleted') await this.begin(tenantId)
  }

  /** Somebody pays for a tenant that is deleted, or purged by now. */
  async orphaned(customerId: string): Promise<void> {
    const { settings, kernel } = this.#dependencies
    if (settings.onTenantDelete !== 'cancel') return
    await kernel.jobs.send(CancelSubscriptions, { customerId }, { key: customerId })
  }

  /** Nothing more is cancelled once the tenant was restored. What it has used until then is on its last invoice. */
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
   * In the transaction of the restoration: what was heard of its subscriptions meanwhile had no plan to change, and nobody to activate.
   * Those that were detached are no longer its own.
   */
  async takeBack(tenantId: string): Promise<void> {
    await lockPayer(this.#dependencies, tenantId)
    const detached = await this.#subscriptions.detachedFrom(tenantId)
    for (const { id } of detached) await this.#dunning.end(id)
    await this.#dunning.takeBack(tenantId)
    const known = await this.#subscriptions.ofTenant(tenantId)
    if (known.length + detached.length > 0) await this.#subscriptions.writePlan(tenantId)
  }

  /** In the transaction of the purge, when whoever is at work for the tenant has ended. */
  async forget(tenantId: string): Promise<void> {
    const { database } = this.#dependencies.kernel
    for (const customerId of await this.#customersOf(tenantId)) await lockCustomer(this.#dependencies, customerId)
    await lockPayer(this.#dependencies, tenantId)
    await database.sql(`select pg_advisory_xact_lock(${usageLock('$1')})`, [tenantId])
    await this.#logUnreported(tenantId)
    await database.sql('delete from multitenancy.billing_inbox where customer_id = any($1) or rejected_for = $2', [
      await this.#customersOf(tenantId),
      tenantId,
    ])
  }

  async #isBack(customerId: string): Promise<boolean> {
    const tenantId = await this.#customers.tenantOf(customerId)
    return tenantId !== undefined && (await tenantStatus(this.#dependencies.kernel.database, tenantId)) !== 'deleted'
  }

  async #customersOf(tenantId: string): Promise<string[]> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      'select customer_id as "customerId" from multitenancy.billing_customers where tenant_id = $1 order by 1',
      [tenantId],
    )
    return rows.map(({ customerId }) => customerId)
  }

  async #logUnreported(tenantId: string): Promise<void> {
    const { database, log } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `select meter, sum(quantity)::float8 as quantity from multitenancy.billing_usage
       where tenant_id = $1 and sent_at is null group by 1`,
      [tenantId],
    )
    for (const row of rows)
      log.warn({ tenantId, ...row }, 'usage that was never reported goes with the purge of its tenant')
  }
}
