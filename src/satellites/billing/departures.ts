/** What becomes of a tenant's subscriptions when it is deleted. Nothing here keeps it from being deleted. */
import type { Customers } from './customers.ts'
import { CancelSubscriptions } from './job-types.ts'
import type { BillingPart } from './part.ts'

const ENDED: ReadonlySet<string> = new Set(['canceled', 'incomplete_expired'])

export class Departures {
  readonly #part: BillingPart
  readonly #customers: Customers

  constructor(part: BillingPart, customers: Customers) {
    this.#part = part
    this.#customers = customers
  }

  /** In the transaction of the deletion. */
  async begin(tenantId: string): Promise<void> {
    const { settings, kernel } = this.#part
    const customerId = await this.#customers.of(tenantId)
    if (customerId === undefined || settings.onTenantDelete === 'preserve') return
    if (settings.onTenantDelete === 'detach') return this.#customers.close(customerId)
    await kernel.jobs.send(CancelSubscriptions, { customerId }, { key: customerId })
  }

  async cancelAll(customerId: string): Promise<void> {
    const { payments } = this.#part
    for await (const { id, status } of payments.subscriptions(customerId)) {
      if (!ENDED.has(status)) await payments.cancel(id, { atPeriodEnd: false })
    }
  }

  /** In the transaction of the purge. */
  async forget(tenantId: string): Promise<void> {
    const { database } = this.#part.kernel
    const { rows } = await database.sql(
      'select customer_id as "customerId" from multitenancy.billing_customers where tenant_id = $1',
      [tenantId],
    )
    await database.sql('delete from multitenancy.billing_inbox where customer_id = any($1)', [
      rows.map(({ customerId }) => customerId),
    ])
    for (const table of ['dunning', 'usage', 'marks', 'subscriptions', 'customers']) {
      await database.sql(`delete from multitenancy.billing_${table} where tenant_id = $1`, [tenantId])
    }
  }
}
