/**
 * What is done with an event of the provider, after it was received. Nothing of it is believed but that something has happened: what is
 * the case is asked of the provider anew, so that events may come late, twice, and in any order. Where the provider no longer has what
 * an event is about, what was kept of all events about it stands in for it.
 *
 * All of it is one transaction, under a lock of the customer: the state, the plan, what happens to the tenant, the typed events, and
 * that the event is done with. Killed anywhere, nothing of it has happened, and it is done again. The provider is asked before it, as a
 * slow one must hold neither connections nor locks; what another has written since then is asked for again (provider/provider-reads.ts).
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

/** An invoice as an event tells of it, and as the provider has it now, if it still has it. */
interface Failed {
  readonly reported: ProviderInvoice
  readonly current: ProviderInvoice | undefined
}

/** It says itself whose it is. */
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

  /** Does nothing when the event is done with. Throws what is to be tried again. @param isLast whether nobody would */
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
      const fault = paymentErrorOf(error)
      const { log } = dependencies.kernel
      log.warn({ eventId, code: fault.code, err: fault.code === 'unhandled' ? error : undefined }, 'an event failed')
      const isFinished = isLast || !fault.isPassing
      await this.#failed(eventId, fault, isFinished)
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

  /** Locked until the transaction ends; undefined when it is done with. */
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
    if (reference === null || customerId === null) return // of something that is not ours
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
   * The invoice is as the provider has it now; which attempt this was, the event knows. That no other follows has to be so by now as
   * well: the provider may have found a time for the next one after it told of this one.
   */
  async #failedToPay(tenantId: string, { reported, current }: Failed, row: InboxRow): Promise<void> {
    const { dependencies, dunning } = this.#services
    const invoice: ProviderInvoice = {
      ...(current ?? reported),
      attempt: reported.attempt,
      nextAttemptAt: reported.nextAttemptAt ?? current?.nextAttemptAt ?? null,
    }
    const at = row.createdAt
    // It may have been paid since the provider was asked, and that be done with.
    const isSettled = (current !== undefined && isDone(current)) || (await wasReportedSettled(dependencies, reported))
    await dunning.failed(tenantId, invoice, { at, current, isSettled })
    if (row.publishedAt === null)
      await publishFailed(dependencies, tenantId, invoice, { final: dunning.isFinal(invoice), at })
  }

  /** By what is kept of the subscription, or what the provider has where nothing was heard of it yet. */
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
    if (!hasEnded(subscription)) await tenantDeletion.followed(tenantId)
  }

  async #failed(eventId: string, { code }: PaymentError, isFinished: boolean): Promise<void> {
    const { dependencies, customers, inbox } = this.#services
    const { database, events, clock } = dependencies.kernel
    await database.transaction(async () => {
      await this.#lockCustomerOf(eventId)
      const row = await this.#waiting(eventId)
      if (!row) return
      const tenantId = row.customerId === null ? undefined : await customers.tenantOf(row.customerId)
      // Whose it is was found out between the attempt and this.
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
