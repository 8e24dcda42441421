/**
 * Resolves the tenant of a customer: from the mapping, the subscription, or the customer's metadata at the provider. A
 * tenant has one customer. Events of a second customer are rejected, and wait until the first is deleted.
 */

import { wasReportedDeleted } from '../inbox/received-events.ts'
import { queryOf } from '../model/dependencies.ts'
import { BillingMisconfigured } from '../model/events.ts'
import { PaymentError } from '../model/provider.ts'
import type { InboxRow } from '../model/tables.ts'
import type { ProviderReads } from '../provider/provider-reads.ts'
import type { Mapped } from '../subscriptions/customers.ts'
import type { BillingServices } from './services.ts'

/** A provider event during its processing transaction. */
export interface EventContext {
  readonly row: InboxRow
  readonly reads: ProviderReads
}

interface Customer {
  readonly customerId: string | null
  /** Tenant id in the metadata of a subscription of the customer. */
  readonly tenantId: string | null
}

export class CustomerOwnerResolver {
  readonly #services: BillingServices

  constructor(services: BillingServices) {
    this.#services = services
  }

  /**
   * Undefined if the tenant is purged, or has another customer, which is published. Throws `tenant_not_resolvable` if
   * no tenant is known.
   */
  async of({ customerId, tenantId }: Customer, context: EventContext): Promise<string | undefined> {
    if (customerId === null) throw new PaymentError('customer_not_found')
    const known = await this.#services.customers.tenantOf(customerId)
    if (known !== undefined) return known
    const named = tenantId ?? context.reads.tenantOf(customerId)
    if (named === undefined) throw new PaymentError('tenant_not_resolvable')
    return (await this.map(named, customerId, context)) === 'mapped' ? named : undefined
  }

  /** Sends the customer's unresolved events again. Closes the mapping immediately if the customer has been deleted. */
  async map(tenantId: string, customerId: string, context: EventContext): Promise<Mapped> {
    const { dependencies, customers, inbox, tenantDeletion } = this.#services
    if ((await customers.tenantOf(customerId)) === tenantId) return 'mapped' // open or closed
    const mapped = await customers.map(tenantId, customerId)
    if (mapped === 'taken') await this.#reject(tenantId, customerId, context)
    if (mapped === 'foreign')
      dependencies.kernel.log.warn({ tenantId, customerId }, 'the customer of another tenant was rejected')
    if (mapped === 'gone') await tenantDeletion.cancelOrphaned(customerId)
    if (mapped !== 'mapped') return mapped
    await inbox.resendUnresolved(customerId)
    if (await wasReportedDeleted(dependencies, customerId)) await customers.close(customerId)
    return mapped
  }

  async #reject(tenantId: string, customerId: string, { row: { eventId, publishedAt } }: EventContext): Promise<void> {
    const { dependencies } = this.#services
    await queryOf(dependencies)
      .updateTable('billingInbox')
      .set({ rejectedFor: tenantId })
      .where('eventId', '=', eventId)
      .execute()
    if (publishedAt !== null) return
    dependencies.kernel.log.warn({ tenantId, customerId }, 'a second customer for a tenant was rejected')
    const reason = 'second_customer'
    await dependencies.kernel.events.publish(BillingMisconfigured, {
      tenantId,
      reason,
      subscriptionId: null,
      customerId,
    })
  }
}
