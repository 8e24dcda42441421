/**
 * Whose a customer is that an event names: a mapping says so, or the subscription, or the customer itself at the provider. A tenant has
 * one: another is refused, and what was heard of it waits for the first to be gone.
 */

import { wasReportedDeleted } from '../inbox/received-events.ts'
import { queryOf } from '../model/dependencies.ts'
import { BillingMisconfigured } from '../model/events.ts'
import { PaymentError } from '../model/provider.ts'
import type { InboxRow } from '../model/tables.ts'
import type { ProviderReads } from '../provider/provider-reads.ts'
import type { Mapped } from '../subscriptions/customers.ts'
import type { BillingServices } from './services.ts'

/** An event that is at work, in its transaction. */
export interface EventContext {
  readonly row: InboxRow
  readonly reads: ProviderReads
}

interface Customer {
  readonly customerId: string | null
  /** The tenant that is noted with a subscription of it. */
  readonly tenantId: string | null
}

export class CustomerOwnerResolver {
  readonly #services: BillingServices

  constructor(services: BillingServices) {
    this.#services = services
  }

  /** Undefined when the tenant is gone, or has another customer, which is said then. Throws where nobody knows whose it is. */
  async of({ customerId, tenantId }: Customer, context: EventContext): Promise<string | undefined> {
    if (customerId === null) throw new PaymentError('customer_not_found')
    const known = await this.#services.customers.tenantOf(customerId)
    if (known !== undefined) return known
    const named = tenantId ?? context.reads.tenantOf(customerId)
    if (named === undefined) throw new PaymentError('tenant_not_resolvable')
    return (await this.map(named, customerId, context)) === 'mapped' ? named : undefined
  }

  /** Whatever was heard of the customer before it was known whose it is, is done now; that it is gone by now counts at once. */
  async map(tenantId: string, customerId: string, context: EventContext): Promise<Mapped> {
    const { dependencies, customers, inbox, tenantDeletion } = this.#services
    if ((await customers.tenantOf(customerId)) === tenantId) return 'mapped' // or was, and is closed
    const mapped = await customers.map(tenantId, customerId)
    if (mapped === 'taken') await this.#reject(tenantId, customerId, context)
    if (mapped === 'foreign')
      dependencies.kernel.log.warn({ tenantId, customerId }, 'a customer of another tenant was refused')
    if (mapped === 'gone') await tenantDeletion.orphaned(customerId)
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
    dependencies.kernel.log.warn({ tenantId, customerId }, 'a second customer for a tenant was refused')
    const reason = 'second_customer'
    await dependencies.kernel.events.publish(BillingMisconfigured, {
      tenantId,
      reason,
      subscriptionId: null,
      customerId,
    })
  }
}
