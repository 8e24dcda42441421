/**
 * Applies the provider's current state of customers to the stored state: after lost events, or for subscriptions older
 * than billing in this installation.
 */

import { lockCustomer } from './model/dependencies.ts'
import { type BillingErrorCode, isDone, PaymentError, type ProviderSubscription } from './model/provider.ts'
import { publishUnmapped } from './processing/publishing.ts'
import type { BillingServices } from './processing/services.ts'
import { ProviderReads } from './provider/provider-reads.ts'
import { hasEnded, lockPayer } from './subscriptions/subscriptions.ts'

export interface Synced {
  readonly tenantId: string
  readonly customerId: string
  readonly subscriptions: number
  readonly plan: string
}

/** Error of the provider that concerns only one tenant. */
export interface Unsynced {
  readonly tenantId: string
  readonly customerId: string
  readonly error: BillingErrorCode
}

const OF_ONE: ReadonlySet<BillingErrorCode> = new Set([
  'customer_not_found',
  'subscription_not_found',
  'provider_rejected',
])

export class Sync {
  readonly #services: BillingServices

  constructor(services: BillingServices) {
    this.#services = services
  }

  /** Number of customers that `all` processes. */
  async count(): Promise<number> {
    return (await this.#services.customers.all()).length
  }

  /** All tenants with a customer. Throws errors that concern all of them. */
  async *all(): AsyncIterable<Synced | Unsynced> {
    for (const one of await this.#services.customers.all()) {
      try {
        const synced = await this.#tenant(one)
        if (synced) yield synced
      } catch (error) {
        if (!(error instanceof PaymentError && OF_ONE.has(error.code))) throw error
        yield { ...one, error: error.code }
      }
    }
  }

  /** One tenant; yields nothing without a customer. */
  async *run(tenantId: string): AsyncIterable<Synced> {
    for (const one of await this.#services.customers.all()) {
      const synced = one.tenantId === tenantId ? await this.#tenant(one) : undefined
      if (synced) yield synced
    }
  }

  /** Stores a subscription that the provider has just returned. */
  async apply(subscription: ProviderSubscription): Promise<void> {
    const { dependencies, customers } = this.#services
    const reads = new ProviderReads(dependencies)
    const lock = () => lockCustomer(dependencies, subscription.customerId)
    await reads.transaction(lock, async () => {
      // The subscription may have changed since the response, so the current state is read.
      const current = reads.subscription(subscription.id) ?? subscription
      const tenantId = await customers.tenantOf(subscription.customerId)
      if (tenantId === undefined) throw new PaymentError('customer_not_found')
      await lockPayer(dependencies, tenantId)
      await this.#write(tenantId, [current])
    })
  }

  /** Undefined if the tenant was purged during the requests. */
  async #tenant({ tenantId, customerId }: { tenantId: string; customerId: string }): Promise<Synced | undefined> {
    const { dependencies, customers, tenantDeletion } = this.#services
    const isThere = await dependencies.payments.hasCustomer(customerId)
    const ids = isThere ? await this.#listed(customerId) : await this.#leftOf(tenantId, customerId)
    const reads = new ProviderReads(dependencies)
    const lock = () => lockCustomer(dependencies, customerId)
    return reads.transaction(lock, async () => {
      const found = ids.flatMap((id) => reads.subscription(id) ?? [])
      await lockPayer(dependencies, tenantId)
      if ((await customers.tenantOf(customerId)) !== tenantId) return undefined
      await this.#write(tenantId, found)
      if (!isThere) await customers.close(customerId)
      await this.#settle(tenantId, reads)
      for (const subscription of found) await publishUnmapped(dependencies, tenantId, subscription)
      if (found.some((one) => !hasEnded(one))) await tenantDeletion.beginIfDeleted(tenantId)
      const { plan } = await dependencies.tenants.plans.resolve(await dependencies.tenants.get(tenantId))
      return { tenantId, customerId, subscriptions: found.length, plan }
    })
  }

  async #listed(customerId: string): Promise<string[]> {
    return Array.fromAsync(this.#services.dependencies.payments.subscriptions(customerId), ({ id }) => id)
  }

  /** Stored subscriptions of a deleted customer: the provider does not list them, but returns each one. */
  async #leftOf(tenantId: string, customerId: string): Promise<string[]> {
    const known = await this.#services.subscriptions.ofTenant(tenantId)
    return known.filter((row) => row.customerId === customerId).map(({ id }) => id)
  }

  /** Writes all subscriptions before the plan, which depends on all of them. */
  async #write(tenantId: string, found: readonly ProviderSubscription[]): Promise<void> {
    const { dependencies, subscriptions, dunning } = this.#services
    const seen = { asOf: dependencies.kernel.clock.now(), isCurrent: true }
    for (const subscription of found) await subscriptions.write(tenantId, subscription, seen)
    for (const subscription of found) if (hasEnded(subscription)) await dunning.end(subscription.id)
    if (found.length > 0) await subscriptions.writePlan(tenantId)
  }

  async #settle(tenantId: string, reads: ProviderReads): Promise<void> {
    const { dunning } = this.#services
    for (const { subscriptionId, invoices } of await dunning.open(tenantId)) {
      const paid = reads.lastPaid(subscriptionId)
      if (paid) await dunning.settled(paid)
      for (const [id, { isSettled }] of Object.entries(invoices)) {
        const invoice = isSettled ? undefined : reads.invoice(id)
        if (invoice && isDone(invoice)) await dunning.settled(invoice)
      }
    }
  }
}
