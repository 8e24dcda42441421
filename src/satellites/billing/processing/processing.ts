/**
 * Processes received events of the provider. An event is only a signal: the current state comes from the provider, so
 * events may be late, repeated and out of order. If the provider no longer has an object, its received events replace
 * it.
 *
 * - State, plan, tenant transition, typed events and completion of the event are one transaction under the customer's
 *   lock. A process that ends in between leaves no trace, and the event is processed again.
 * - Requests to the provider happen outside of the transaction, without locks or connections
 *   (provider/provider-reads.ts).
 */

import { latestReceived, wasReportedSettled } from '../inbox/received-events.ts'
import { lockCustomer, queryOf } from '../model/dependencies.ts'
import { BillingEventDeadLettered } from '../model/events.ts'
import {
  isDone,
  type PaymentError,
  type ProviderInvoice,
  type ProviderSession,
  type ProviderSubscription,
  paymentErrorOf,
  type Subject,
} from '../model/provider.ts'
import type { EventCounts } from '../model/series.ts'
import type { InboxRow } from '../model/tables.ts'
import { ProviderReads } from '../provider/provider-reads.ts'
import { hasEnded, lockPayer, type Seen } from '../subscriptions/subscriptions.ts'
import { CustomerOwnerResolver, type EventContext } from './customer-owner.ts'
import { deriveEvents } from './derived-events.ts'
import { publishDerived, publishFailed, publishPaid, publishUnmapped } from './publishing.ts'
import type { BillingServices } from './services.ts'

type SubscriptionSubject = Extract<Subject, { kind: 'subscription' }>

/** An invoice as reported by an event, and its current state if the provider still has it. */
interface Failed {
  readonly reported: ProviderInvoice
  readonly current: ProviderInvoice | undefined
}

/** A checkout session names its tenant itself. */
const isSession = ({ type }: InboxRow): boolean => type === 'checkout.session.completed'

export class Processing {
  readonly #services: BillingServices
  readonly #counts: EventCounts
  readonly #customerOwner: CustomerOwnerResolver

  constructor(services: BillingServices, counts: EventCounts) {
    this.#services = services
    this.#counts = counts
    this.#customerOwner = new CustomerOwnerResolver(services)
  }

  /**
   * Does nothing for a processed event. Throws if the event is to be retried.
   * @param isLast whether this is the last attempt
   */
  async process(eventId: string, isLast: boolean): Promise<void> {
    const { dependencies } = this.#services
    const reads = new ProviderReads(dependencies)
    const lock = () => this.#lockCustomerOf(eventId)
    try {
      await reads.transaction(lock, async () => {
        const row = await this.#waiting(eventId)
        if (row) await this.#work({ row, reads })
      })
    } catch (error) {
      const failure = paymentErrorOf(error)
      const { log } = dependencies.kernel
      log.warn(
        { eventId, code: failure.code, err: failure.code === 'unhandled' ? error : undefined },
        'processing of a provider event failed',
      )
      const isFinished = isLast || !failure.isPassing
      await this.#failed(eventId, failure, isFinished)
      if (!isFinished) throw error
    }
  }

  async #lockCustomerOf(eventId: string): Promise<void> {
    const { dependencies } = this.#services
    const event = await queryOf(dependencies)
      .selectFrom('billingInbox')
      .select('customerId')
      .where('eventId', '=', eventId)
      .executeTakeFirst()
    if (event?.customerId) await lockCustomer(dependencies, event.customerId)
  }

  /** Row lock until the transaction ends; undefined if the event is already processed. */
  #waiting(eventId: string): Promise<InboxRow | undefined> {
    return queryOf(this.#services.dependencies)
      .selectFrom('billingInbox')
      .selectAll()
      .where('eventId', '=', eventId)
      .where('status', '=', 'waiting')
      .forUpdate()
      .executeTakeFirst()
  }

  async #work(context: EventContext): Promise<void> {
    const { dependencies } = this.#services
    const { row } = context
    const isOurs = row.isLive === dependencies.payments.isLive
    if (isOurs) await this.#handle(context)
    const { clock, database } = dependencies.kernel
    const now = clock.now()
    const status = isOurs ? 'completed' : 'ignored'
    database.afterCommit(() => this.#counts.add(status))
    await queryOf(dependencies)
      .updateTable('billingInbox')
      .set({ status, errorCode: null, processedAt: now, publishedAt: row.publishedAt ?? now })
      .where('eventId', '=', row.eventId)
      .execute()
  }

  async #handle(context: EventContext): Promise<void> {
    const { dependencies, customers } = this.#services
    const { row } = context
    const subject = dependencies.payments.subjectOf(row)
    if (row.customerId !== null && (await customers.isDetached(row.customerId))) return
    if (subject.kind === 'session') await this.#session(subject.session, context)
    if (subject.kind === 'subscription') await this.#subscription(subject, context)
    if (subject.kind === 'invoice') await this.#invoice(subject.invoice, context)
    if (subject.kind === 'customer' && subject.isDeleted) await customers.close(subject.customerId)
  }

  async #session({ customerId, subscriptionId, reference }: ProviderSession, context: EventContext): Promise<void> {
    if (reference === null || customerId === null) return // not a checkout of a tenant
    const current = subscriptionId === null ? undefined : context.reads.subscription(subscriptionId)
    const mapped = await this.#customerOwner.map(reference, customerId, context)
    if (current && mapped === 'mapped')
      await this.#reconcile(reference, current, { asOf: context.row.createdAt, isCurrent: true })
  }

  async #subscription({ subscription, before }: SubscriptionSubject, context: EventContext): Promise<void> {
    const { dependencies } = this.#services
    const { row, reads } = context
    const current = reads.subscription(subscription.id)
    const tenantId = await this.#customerOwner.of(current ?? subscription, context)
    if (tenantId === undefined) return
    if (current) await this.#reconcile(tenantId, current, { asOf: row.createdAt, isCurrent: true })
    else {
      const last = await latestReceived(dependencies, subscription)
      await this.#reconcile(tenantId, last.subscription, { asOf: last.at, isCurrent: false })
    }
    if (row.publishedAt !== null) return
    if (row.type !== 'customer.subscription.deleted') await publishUnmapped(dependencies, tenantId, subscription)
    for (const derived of deriveEvents(row.type, subscription, before, row.createdAt)) {
      await publishDerived(dependencies, tenantId, subscription, derived, row.createdAt)
    }
  }

  async #invoice(invoice: ProviderInvoice, context: EventContext): Promise<void> {
    const { dependencies, dunning } = this.#services
    const { row, reads } = context
    const isFailure = row.type === 'invoice.payment_failed'
    const current = isFailure ? reads.invoice(invoice.id) : undefined
    const tenantId = await this.#payerOf(invoice, context)
    if (tenantId === undefined) return
    await lockPayer(dependencies, tenantId)
    if (isFailure) return this.#failedToPay(tenantId, { reported: invoice, current }, row)
    await dunning.settled(invoice)
    if (row.type === 'invoice.voided') return
    await dunning.paid(tenantId)
    if (row.type === 'invoice.payment_succeeded' && row.publishedAt === null) {
      await publishPaid(dependencies, tenantId, invoice, row.createdAt)
    }
  }

  /**
   * Records a failed payment with the current invoice; the event supplies the number of the attempt. The attempt is
   * final only if the current invoice confirms it, because the provider may schedule another attempt after the event.
   */
  async #failedToPay(tenantId: string, { reported, current }: Failed, row: InboxRow): Promise<void> {
    const { dependencies, dunning } = this.#services
    const invoice: ProviderInvoice = {
      ...(current ?? reported),
      attempt: reported.attempt,
      nextAttemptAt: reported.nextAttemptAt ?? current?.nextAttemptAt ?? null,
    }
    const at = row.createdAt
    // A payment may have been processed since the request to the provider.
    const isSettled = (current !== undefined && isDone(current)) || (await wasReportedSettled(dependencies, reported))
    await dunning.failed(tenantId, invoice, { at, current, isSettled })
    if (row.publishedAt === null)
      await publishFailed(dependencies, tenantId, invoice, { final: dunning.isFinal(invoice), at })
  }

  /** Tenant of the stored subscription, or of the provider's subscription if none is stored. */
  async #payerOf({ subscriptionId, customerId }: ProviderInvoice, context: EventContext): Promise<string | undefined> {
    const { subscriptions } = this.#services
    const known = subscriptionId === null ? undefined : await subscriptions.find(subscriptionId)
    if (known) return known.tenantId
    const current = subscriptionId === null ? undefined : context.reads.subscription(subscriptionId)
    const tenantId = await this.#customerOwner.of(current ?? { customerId, tenantId: null }, context)
    if (current && tenantId !== undefined) {
      await this.#reconcile(tenantId, current, { asOf: current.createdAt, isCurrent: true })
    }
    return tenantId
  }

  async #reconcile(tenantId: string, subscription: ProviderSubscription, seen: Seen): Promise<void> {
    const { dependencies, subscriptions, dunning, tenantDeletion } = this.#services
    await lockPayer(dependencies, tenantId)
    await subscriptions.write(tenantId, subscription, seen)
    const kept = await subscriptions.find(subscription.id)
    if (kept && hasEnded(kept)) await dunning.end(kept.id)
    await subscriptions.writePlan(tenantId)
    if (!hasEnded(subscription)) await tenantDeletion.beginIfDeleted(tenantId)
  }

  async #failed(eventId: string, { code }: PaymentError, isFinished: boolean): Promise<void> {
    const { dependencies, customers, inbox } = this.#services
    const { database, events, clock } = dependencies.kernel
    await database.transaction(async () => {
      await this.#lockCustomerOf(eventId)
      const row = await this.#waiting(eventId)
      if (!row) return
      const tenantId = row.customerId === null ? undefined : await customers.tenantOf(row.customerId)
      // The tenant became known after the failed attempt.
      const isOutdated = code === 'tenant_not_resolvable' && tenantId !== undefined && !isSession(row)
      if (isOutdated) return inbox.send(eventId)
      await queryOf(dependencies)
        .updateTable('billingInbox')
        .set({
          attempts: row.attempts + 1,
          errorCode: code,
          ...(isFinished ? { status: 'failed', processedAt: clock.now() } : {}),
        })
        .where('eventId', '=', eventId)
        .execute()
      if (!isFinished) return
      database.afterCommit(() => this.#counts.add('failed'))
      await events.publish(BillingEventDeadLettered, { tenantId: tenantId ?? null, eventId, errorCode: code })
    })
  }
}
