/**
 * What is done with an event of the provider, after it was received. Nothing of it is believed but that something has happened: what is
 * the case is asked of the provider anew, so that events may come late, twice, and in any order. Where the provider no longer has what
 * an event is about, what was kept of all events about it stands in for it.
 *
 * All of it is one transaction, under a lock of the customer: the state, the plan, what happens to the tenant, the typed events, and
 * that the event is done with. Killed anywhere, nothing of it has happened, and it is done again.
 */
import type { Mapped } from './customers.ts'
import { planOfItems } from './entitlement.ts'
import { BillingEventDeadLettered, BillingMisconfigured } from './events.ts'
import { isSaidDeleted, isSaidSettled, lastHeard } from './heard.ts'
import { lockCustomer, queryOf } from './part.ts'
import type { BillingParts } from './parts.ts'
import {
  faultOf,
  PaymentsFault,
  type ProviderInvoice,
  type ProviderSession,
  type ProviderSubscription,
  type Subject,
} from './payments.ts'
import { publishFailed, publishPaid, publishSaying } from './publishing.ts'
import { saidOf } from './said.ts'
import type { EventCounts } from './series.ts'
import { hasEnded, lockPayer } from './subscriptions.ts'
import type { InboxRow } from './tables.ts'

type SubscriptionSubject = Extract<Subject, { kind: 'subscription' }>

/** It says itself whose it is. */
const isSession = ({ type }: InboxRow): boolean => type === 'checkout.session.completed'

export class Processing {
  readonly #parts: BillingParts
  readonly #counts: EventCounts

  constructor(parts: BillingParts, counts: EventCounts) {
    this.#parts = parts
    this.#counts = counts
  }

  /** Does nothing when the event is done with. Throws what is to be tried again. @param isLast whether nobody would */
  async process(eventId: string, isLast: boolean): Promise<void> {
    const { database, log } = this.#parts.part.kernel
    try {
      await database.transaction(async () => {
        const row = await this.#taken(eventId)
        if (row) await this.#work(row)
      })
    } catch (error) {
      const fault = faultOf(error)
      log.warn({ eventId, code: fault.code, err: fault.code === 'unhandled' ? error : undefined }, 'an event failed')
      const isOver = isLast || !fault.isPassing
      await this.#failed(eventId, fault, isOver)
      if (!isOver) throw error
    }
  }

  /** Locked until the transaction ends; undefined when it is done with. */
  async #taken(eventId: string): Promise<InboxRow | undefined> {
    await this.#lockCustomerOf(eventId)
    return queryOf(this.#parts.part)
      .selectFrom('billingInbox')
      .selectAll()
      .where('eventId', '=', eventId)
      .where('status', '=', 'waiting')
      .forUpdate()
      .executeTakeFirst()
  }

  async #lockCustomerOf(eventId: string): Promise<void> {
    const { part } = this.#parts
    const event = await queryOf(part)
      .selectFrom('billingInbox')
      .select('customerId')
      .where('eventId', '=', eventId)
      .executeTakeFirst()
    if (event?.customerId) await lockCustomer(part, event.customerId)
  }

  async #work(row: InboxRow): Promise<void> {
    const { part } = this.#parts
    const isOurs = row.isLive === part.payments.isLive
    if (isOurs) await this.#handle(row, part.payments.subjectOf(row))
    const { clock, database } = part.kernel
    const now = clock.now()
    const status = isOurs ? 'completed' : 'ignored'
    database.afterCommit(() => this.#counts.add(status))
    await queryOf(part)
      .updateTable('billingInbox')
      .set({ status, errorCode: null, processedAt: now, saidAt: row.saidAt ?? now })
      .where('eventId', '=', row.eventId)
      .execute()
  }

  async #handle(row: InboxRow, subject: Subject): Promise<void> {
    if (subject.kind === 'session') await this.#session(subject.session, row)
    if (subject.kind === 'subscription') await this.#subscription(subject, row)
    if (subject.kind === 'invoice') await this.#invoice(subject.invoice, row)
    if (subject.kind === 'customer' && subject.isDeleted) await this.#parts.customers.close(subject.customerId)
  }

  async #session({ customerId, subscriptionId, reference }: ProviderSession, row: InboxRow): Promise<void> {
    if (reference === null || customerId === null) return // of something that is not ours
    const mapped = await this.#map(reference, customerId)
    if (mapped === 'taken') return this.#secondCustomer(reference, customerId, row)
    if (mapped === 'gone' || subscriptionId === null) return
    const current = await this.#parts.part.payments.subscription(subscriptionId)
    if (current) await this.#reconcile(reference, current, { asOf: row.createdAt, isCurrent: true })
  }

  async #subscription({ subscription, before }: SubscriptionSubject, row: InboxRow): Promise<void> {
    const { part } = this.#parts
    const current = await part.payments.subscription(subscription.id)
    const tenantId = await this.#tenantOf(current ?? subscription, row)
    if (tenantId === undefined) return
    if (current) await this.#reconcile(tenantId, current, { asOf: row.createdAt, isCurrent: true })
    else {
      const last = await lastHeard(part, subscription)
      await this.#reconcile(tenantId, last.subscription, { asOf: last.at, isCurrent: false })
    }
    if (row.saidAt !== null) return
    const isServed = !hasEnded(subscription) && row.type !== 'customer.subscription.deleted'
    if (isServed && planOfItems(subscription.items, part.plans) === undefined) {
      await this.#misconfigured('plan_unmapped', tenantId, subscription)
    }
    for (const saying of saidOf(row.type, subscription, before, row.createdAt)) {
      await publishSaying(part, tenantId, subscription, saying, row.createdAt)
    }
  }

  async #invoice(invoice: ProviderInvoice, row: InboxRow): Promise<void> {
    const { part, dunning } = this.#parts
    const { subscriptionId } = invoice
    const at = row.createdAt
    const isFailure = row.type === 'invoice.payment_failed'
    const isSettledByNow = isFailure && (await this.#isSettled(invoice))
    const known = subscriptionId === null ? undefined : await this.#known(subscriptionId)
    const tenantId = known?.tenantId ?? (await this.#tenantOf({ customerId: row.customerId, tenantId: null }, row))
    if (tenantId === undefined) return
    await lockPayer(part, tenantId)
    if (isFailure) {
      await dunning.failed(tenantId, invoice, at, isSettledByNow)
      if (row.saidAt === null) await publishFailed(part, tenantId, invoice, { final: dunning.isFinal(invoice), at })
      return
    }
    await dunning.settled(invoice)
    if (row.type === 'invoice.voided') return
    await dunning.paid(tenantId)
    if (row.type === 'invoice.payment_succeeded' && row.saidAt === null) await publishPaid(part, tenantId, invoice, at)
  }

  async #isSettled(invoice: ProviderInvoice): Promise<boolean> {
    const { part } = this.#parts
    const current = await part.payments.invoice(invoice.id)
    return current ? current.status === 'paid' || current.status === 'void' : isSaidSettled(part, invoice)
  }

  /** What is kept of a subscription, or what the provider has where nothing was heard of it yet. */
  async #known(subscriptionId: string): Promise<{ tenantId: string } | undefined> {
    const { part, subscriptions } = this.#parts
    const known = await subscriptions.find(subscriptionId)
    if (known) return known
    const current = await part.payments.subscription(subscriptionId)
    const tenantId = current && (await this.#mapped(current))
    if (!current || tenantId === undefined) return undefined
    await this.#reconcile(tenantId, current, { asOf: current.createdAt, isCurrent: true })
    return { tenantId }
  }

  async #reconcile(tenantId: string, subscription: ProviderSubscription, seen: { asOf: Date; isCurrent: boolean }) {
    const { part, subscriptions, dunning, departures } = this.#parts
    await lockPayer(part, tenantId)
    await subscriptions.write(tenantId, subscription, seen)
    const kept = await subscriptions.find(subscription.id)
    if (kept && hasEnded(kept)) await dunning.end(kept.id)
    await subscriptions.writePlan(tenantId)
    if (!hasEnded(subscription)) await departures.followed(tenantId)
  }

  /** Undefined when the tenant is gone, or when a second customer of it is refused, which is said then. */
  async #tenantOf(
    of: { customerId: string | null; tenantId: string | null },
    row: InboxRow,
  ): Promise<string | undefined> {
    const { customerId } = of
    if (customerId === null) throw new PaymentsFault('customer_not_found')
    const known = await this.#parts.customers.tenantOf(customerId)
    if (known !== undefined) return known
    const tenantId = await this.#named({ customerId, tenantId: of.tenantId })
    if (tenantId === undefined) throw new PaymentsFault('tenant_not_resolvable')
    const mapped = await this.#map(tenantId, customerId)
    if (mapped === 'taken') await this.#secondCustomer(tenantId, customerId, row)
    return mapped === 'mapped' ? tenantId : undefined
  }

  async #mapped(of: { customerId: string; tenantId: string | null }): Promise<string | undefined> {
    const known = await this.#parts.customers.tenantOf(of.customerId)
    if (known !== undefined) return known
    const tenantId = await this.#named(of)
    if (tenantId === undefined) return undefined
    return (await this.#map(tenantId, of.customerId)) === 'mapped' ? tenantId : undefined
  }

  /** Whatever was heard of the customer before it was known whose it is, is done now; that it is gone by now counts at once. */
  async #map(tenantId: string, customerId: string): Promise<Mapped> {
    const { part, customers } = this.#parts
    if ((await customers.tenantOf(customerId)) === tenantId) return 'mapped' // or was, and is closed
    const mapped = await customers.map(tenantId, customerId)
    if (mapped !== 'mapped') return mapped
    await this.#requeue(customerId)
    if (await isSaidDeleted(part, customerId)) await customers.close(customerId)
    return mapped
  }

  /** As it was noted with the subscription, or with its customer. */
  async #named({ customerId, tenantId }: { customerId: string; tenantId: string | null }): Promise<string | undefined> {
    return tenantId ?? (await this.#parts.part.payments.tenantOf(customerId))
  }

  async #secondCustomer(tenantId: string, customerId: string, row: InboxRow): Promise<void> {
    if (row.saidAt !== null) return
    this.#parts.part.kernel.log.warn({ tenantId, customerId }, 'a second customer for a tenant was refused')
    await this.#parts.part.kernel.events.publish(BillingMisconfigured, {
      tenantId,
      reason: 'second_customer',
      subscriptionId: null,
      customerId,
    })
  }

  async #misconfigured(reason: 'plan_unmapped', tenantId: string, { id, customerId }: ProviderSubscription) {
    const { events } = this.#parts.part.kernel
    await events.publish(BillingMisconfigured, { tenantId, reason, subscriptionId: id, customerId })
  }

  /** What could not be done before it was known whose it is; some of it has failed, and some waits to be tried again. */
  async #requeue(customerId: string): Promise<void> {
    const { rows } = await this.#parts.part.kernel.database.sql(
      `update multitenancy.billing_inbox set status = 'waiting', attempts = 0, error_code = null, processed_at = null
       where customer_id = $1 and status in ('failed', 'waiting') and error_code = 'tenant_not_resolvable'
       returning event_id as "eventId"`,
      [customerId],
    )
    for (const { eventId } of rows) await this.#parts.inbox.send(eventId)
  }

  async #failed(eventId: string, { code }: PaymentsFault, isOver: boolean): Promise<void> {
    const { part, customers, inbox } = this.#parts
    const { database, events, clock } = part.kernel
    await database.transaction(async () => {
      const row = await this.#taken(eventId)
      if (!row) return
      const tenantId = row.customerId === null ? undefined : await customers.tenantOf(row.customerId)
      // Whose it is was found out between the attempt and this.
      const isOutdated = code === 'tenant_not_resolvable' && tenantId !== undefined && !isSession(row)
      if (isOutdated) return inbox.send(eventId)
      await queryOf(part)
        .updateTable('billingInbox')
        .set({
          attempts: row.attempts + 1,
          errorCode: code,
          ...(isOver ? { status: 'failed', processedAt: clock.now() } : {}),
        })
        .where('eventId', '=', eventId)
        .execute()
      if (!isOver) return
      database.afterCommit(() => this.#counts.add('failed'))
      await events.publish(BillingEventDeadLettered, { tenantId: tenantId ?? null, eventId, errorCode: code })
    })
  }
}
