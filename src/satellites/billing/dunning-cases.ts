/**
 * The cases of dunning: a row for each billing period of a subscription in which a payment has failed. What they come to is decided in
 * dunning.ts; this keeps them, carries out what the policy says when a grace is over, and takes it back when the payment comes.
 *
 * A tenant is activated again only when dunning has suspended it, and nobody has touched it since.
 */
import { recordChange } from '../../kernel/changes.ts'
import { tenantStatus } from '../../tenants/existing.ts'
import { isFinal, type Records, type Standing, standingOf, withFailure, withSettlement } from './dunning.ts'
import { type BillingPart, lockCustomer, queryOf } from './part.ts'
import type { ProviderInvoice } from './payments.ts'
import { hasEnded, type Subscriptions } from './subscriptions.ts'
import type { DunningRow } from './tables.ts'

/** What a tenant owes an answer to; `over` becomes what the policy does. */
const APPLIED = { downgrade: 'downgraded', suspend: 'suspended', none: 'grace' } as const

export class DunningCases {
  readonly #part: BillingPart
  readonly #subscriptions: Subscriptions

  constructor(part: BillingPart, subscriptions: Subscriptions) {
    this.#part = part
    this.#subscriptions = subscriptions
  }

  /** The one that is not over, the latest first. */
  open(tenantId: string): Promise<DunningRow[]> {
    return queryOf(this.#part)
      .selectFrom('billingDunning')
      .selectAll()
      .where('tenantId', '=', tenantId)
      .where('closedAt', 'is', null)
      .where('state', '!=', 'recovered')
      .orderBy('periodStart', 'desc')
      .execute()
  }

  /**
   * An attempt to collect has failed. The first invoice of a subscription has no case: nothing has begun.
   * @param isSettled whether it is paid by now, or not owed any more
   */
  async failed(tenantId: string, invoice: ProviderInvoice, at: Date, isSettled: boolean): Promise<void> {
    const { subscriptionId, periodStart, isFirst } = invoice
    if (isFirst || subscriptionId === null) return
    const row =
      (await this.#row(subscriptionId, periodStart)) ?? (await this.#opened(tenantId, subscriptionId, periodStart))
    const invoices = withFailure(row.invoices, invoice, this.#policy, at)
    await this.#settle(row, isSettled ? withSettlement(invoices, invoice.id) : invoices)
  }

  /** An invoice is paid, or not owed any more. */
  async settled({ id, subscriptionId, periodStart }: ProviderInvoice): Promise<void> {
    const row = subscriptionId === null ? undefined : await this.#row(subscriptionId, periodStart)
    if (row) await this.#settle(row, withSettlement(row.invoices, id))
  }

  isFinal(invoice: ProviderInvoice): boolean {
    return isFinal(invoice, this.#policy)
  }

  /** A subscription has ended: nothing is tried any more. What was suspended stays so until somebody pays. */
  async end(subscriptionId: string): Promise<void> {
    const rows = await this.#rows(subscriptionId)
    for (const row of rows) {
      if (row.closedAt === null && row.state !== 'suspended') await this.#close(row, 'ended')
    }
  }

  /** Somebody has paid for a subscription of the tenant: what is left of those that have ended is over. */
  async paid(tenantId: string): Promise<void> {
    for (const row of await this.open(tenantId)) {
      const subscription = await this.#subscriptions.find(row.subscriptionId)
      if (subscription && hasEnded(subscription)) await this.#recover(row)
    }
  }

  /** Carries out what is due; answers how many cases that were. Each in a transaction of its own. */
  async sweep(signal?: AbortSignal): Promise<number> {
    if (this.#policy.action === 'none') return 0
    const { clock } = this.#part.kernel
    const due = await queryOf(this.#part)
      .selectFrom('billingDunning')
      .innerJoin('billingSubscriptions', 'billingSubscriptions.id', 'billingDunning.subscriptionId')
      .select(['subscriptionId', 'billingDunning.periodStart', 'customerId'])
      .where('state', '=', 'grace')
      .where('graceUntil', '<=', clock.now())
      .orderBy('graceUntil')
      .execute()
    let done = 0
    for (const { subscriptionId, periodStart, customerId } of due) {
      if (signal?.aborted) break
      const isDone = await this.#part.kernel.database.transaction(async () => {
        await lockCustomer(this.#part, customerId)
        const row = await this.#row(subscriptionId, periodStart)
        return row?.state === 'grace' && (await this.#settle(row, row.invoices))
      })
      if (isDone) done += 1
    }
    return done
  }

  get #policy() {
    return this.#part.settings.dunning
  }

  async #opened(tenantId: string, subscriptionId: string, periodStart: Date): Promise<DunningRow> {
    const row: DunningRow = {
      subscriptionId,
      periodStart,
      tenantId,
      invoices: {},
      state: 'retrying',
      graceUntil: null,
      suspendedAt: null,
      openedAt: this.#part.kernel.clock.now(),
      closedAt: null,
    }
    await queryOf(this.#part)
      .insertInto('billingDunning')
      .values({ ...row, invoices: '{}' as never })
      .execute()
    return row
  }

  /** Brings a case to what its invoices come to. True when something has happened to the tenant. */
  async #settle(row: DunningRow, invoices: Records): Promise<boolean> {
    await this.#write(row, { invoices: JSON.stringify(invoices) as never })
    const standing = standingOf(invoices, this.#policy, this.#part.kernel.clock.now())
    if (standing.state === 'good') {
      if (row.closedAt === null) await this.#recover(row)
      return false
    }
    if (row.state === 'ended' || row.state === 'downgraded' || row.state === 'suspended') return false
    const subscription = await this.#subscriptions.find(row.subscriptionId)
    if (subscription && hasEnded(subscription)) {
      await this.#close(row, 'ended')
      return false
    }
    const state = standing.state === 'over' ? APPLIED[this.#policy.action] : standing.state
    await this.#write(row, { state, graceUntil: untilOf(standing), closedAt: null })
    if (state !== row.state) await this.#record(row, state)
    if (state === 'suspended') await this.#suspend(row)
    await this.#subscriptions.writePlan(row.tenantId)
    return state !== 'retrying' && state !== 'grace'
  }

  async #suspend(row: DunningRow): Promise<void> {
    const { kernel, tenants } = this.#part
    if ((await tenantStatus(kernel.database, row.tenantId)) !== 'active') return
    const { changed, tenant } = await tenants.suspend(row.tenantId)
    if (changed && tenant.suspendedAt) await this.#write(row, { suspendedAt: new Date(tenant.suspendedAt) })
  }

  async #recover(row: DunningRow): Promise<void> {
    await this.#close(row, 'recovered')
    await this.#subscriptions.writePlan(row.tenantId)
    if (row.suspendedAt === null) return
    const { kernel, tenants } = this.#part
    const others = await this.open(row.tenantId)
    const stillSuspending = others.find(({ state }) => state === 'suspended')
    if (stillSuspending) return this.#write(stillSuspending, { suspendedAt: row.suspendedAt })
    if ((await tenantStatus(kernel.database, row.tenantId)) !== 'suspended') return
    const { suspendedAt } = await tenants.get(row.tenantId)
    // Suspended at another time is suspended by somebody else.
    if (suspendedAt === row.suspendedAt.toISOString()) await tenants.activate(row.tenantId)
  }

  async #close(row: DunningRow, state: 'recovered' | 'ended'): Promise<void> {
    await this.#write(row, { state, closedAt: this.#part.kernel.clock.now() })
    await this.#record(row, state)
  }

  async #record({ tenantId, subscriptionId, state }: DunningRow, to: DunningRow['state']): Promise<void> {
    await recordChange(this.#part.kernel.events, {
      action: 'billing.dunning',
      tenantId,
      target: `subscription:${subscriptionId}`,
      before: { state },
      after: { state: to },
    })
  }

  async #write({ subscriptionId, periodStart }: DunningRow, set: Partial<DunningRow>): Promise<void> {
    await queryOf(this.#part)
      .updateTable('billingDunning')
      .set(set)
      .where('subscriptionId', '=', subscriptionId)
      .where('periodStart', '=', periodStart)
      .execute()
  }

  #rows(subscriptionId: string): Promise<DunningRow[]> {
    return queryOf(this.#part)
      .selectFrom('billingDunning')
      .selectAll()
      .where('subscriptionId', '=', subscriptionId)
      .execute()
  }

  async #row(subscriptionId: string, periodStart: Date): Promise<DunningRow | undefined> {
    return (await this.#rows(subscriptionId)).find((row) => row.periodStart.getTime() === periodStart.getTime())
  }
}

const untilOf = (standing: Standing): Date | null => ('until' in standing ? standing.until : null)
