/**
 * Asks the provider for everything it knows of a tenant, and brings what is kept up to it: for when events were lost, or a tenant had
 * subscriptions before there was billing here.
 */

import { lockCustomer } from './part.ts'
import type { BillingParts } from './parts.ts'
import { PaymentsFault, type ProviderSubscription } from './payments.ts'
import { hasEnded } from './subscriptions.ts'

export interface Synced {
  readonly tenantId: string
  readonly customerId: string
  readonly subscriptions: number
  readonly plan: string
}

export class Sync {
  readonly #parts: BillingParts

  constructor(parts: BillingParts) {
    this.#parts = parts
  }

  /** All tenants that have a customer, or one of them; undefined where it has none. */
  async *run(tenantId?: string): AsyncIterable<Synced> {
    const all = await this.#parts.customers.all()
    for (const one of all) if (tenantId === undefined || one.tenantId === tenantId) yield await this.#tenant(one)
  }

  /** What the provider has just answered. */
  async adopt(subscription: ProviderSubscription): Promise<void> {
    const { part, customers } = this.#parts
    await part.kernel.database.transaction(async () => {
      await lockCustomer(part, subscription.customerId)
      const tenantId = await customers.tenantOf(subscription.customerId)
      if (tenantId === undefined) throw new PaymentsFault('customer_not_found')
      // By the time of the answer somebody may have changed it again: what the provider has now is what counts.
      await this.#write(tenantId, (await part.payments.subscription(subscription.id)) ?? subscription)
    })
  }

  async #tenant({ tenantId, customerId }: { tenantId: string; customerId: string }): Promise<Synced> {
    const { part, dunning } = this.#parts
    return part.kernel.database.transaction(async () => {
      await lockCustomer(part, customerId)
      let subscriptions = 0
      for await (const subscription of part.payments.subscriptions(customerId)) {
        await this.#write(tenantId, subscription)
        subscriptions += 1
      }
      for (const { invoices } of await dunning.open(tenantId)) {
        for (const [id, { isSettled }] of Object.entries(invoices)) if (!isSettled) await this.#invoice(id)
      }
      const { plan } = await part.tenants.plans.resolve(await part.tenants.get(tenantId))
      return { tenantId, customerId, subscriptions, plan }
    })
  }

  async #write(tenantId: string, subscription: ProviderSubscription): Promise<void> {
    const { part, subscriptions, dunning } = this.#parts
    await subscriptions.write(tenantId, subscription, { asOf: part.kernel.clock.now(), isCurrent: true })
    if (hasEnded(subscription)) await dunning.end(subscription.id)
    await subscriptions.writePlan(tenantId)
  }

  async #invoice(id: string): Promise<void> {
    const { part, dunning } = this.#parts
    const invoice = await part.payments.invoice(id)
    if (invoice?.status === 'paid' || invoice?.status === 'void') await dunning.settled(invoice)
  }
}
