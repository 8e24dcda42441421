/**
 * The cases of dunning: a row for each billing period of a subscription in which a payment has failed. What they come to is decided in
 * dunning.ts; this keeps them, carries out what the policy says when a grace is over, and takes it back when the payment comes.
 *
 * A case is brought to what is known with each thing that becomes known, so a suspension that was carried out because a payment, or an
 * end, was heard of too late is taken back as well. What is over is looked at again only when something new is known of it.
 */
import { isDeepStrictEqual } from 'node:util'
import { recordChange } from '../../../kernel/events/changes.ts'
import { wasReportedPaid } from '../inbox/received-events.ts'
import { type BillingDependencies, lockCustomer, queryOf } from '../model/dependencies.ts'
import { isDone, isPayment, PaymentError, type ProviderInvoice } from '../model/provider.ts'
import type { BillingTables, DunningRow, Records } from '../model/tables.ts'
import { ProviderReads } from '../provider/provider-reads.ts'
import { lockPayer, type Subscriptions } from '../subscriptions/subscriptions.ts'
import { isFinal, type Standing, standingOf, withFailure, withLaterPayment, withSettlement } from './dunning.ts'
import { DunningSuspensions, openCases } from './suspensions.ts'

/** What becomes of a case whose grace is over. */
const APPLIED = { downgrade: 'downgraded', suspend: 'suspended', none: 'grace' } as const

export interface Failure {
  readonly at: Date
  /** The invoice as it is by now, where the provider still has it: more attempts may have failed. */
  readonly current: ProviderInvoice | undefined
  /** Whether it is paid by now, or not owed any more. */
  readonly isSettled: boolean
}

type Due = Pick<DunningRow, 'subscriptionId' | 'periodEnd' | 'tenantId'> & { readonly customerId: string }

export class DunningCases {
  readonly #dependencies: BillingDependencies
  readonly #subscriptions: Subscriptions
  readonly suspensions: DunningSuspensions

  constructor(dependencies: BillingDependencies, subscriptions: Subscriptions) {
    this.#dependencies = dependencies
    this.suspensions = new DunningSuspensions(dependencies)
    this.#subscriptions = subscriptions
  }

  /** Those that are not over, the latest first. */
  open(tenantId: string): Promise<DunningRow[]> {
    return openCases(this.#dependencies, tenantId)
  }

  /** An attempt to collect has failed. The first invoice of a subscription has no case: nothing has begun. */
  async failed(tenantId: string, invoice: ProviderInvoice, { at, current, isSettled }: Failure): Promise<void> {
    const { id, subscriptionId, periodEnd, isFirst } = invoice
    if (isFirst || subscriptionId === null) return
    const row = (await this.#caseOf(invoice)) ?? (await this.#opened(tenantId, subscriptionId, periodEnd))
    const failed = withFailure(row.invoices, invoice, this.#policy, at)
    if (isSettled) return void (await this.#settle(row, withSettlement(failed, id)))
    const byNow = this.#dependencies.kernel.clock.now()
    const isAhead = current !== undefined && current.attempt > invoice.attempt
    await this.#settle(row, isAhead ? withFailure(failed, current, this.#policy, byNow) : failed)
  }

  /**
   * An invoice is paid, or not owed any more; a payment settles the periods before it as well. Where nothing of them has failed yet,
   * this is asked for when that is heard.
   */
  async settled(invoice: ProviderInvoice): Promise<void> {
    const row = await this.#caseOf(invoice)
    if (row?.invoices[invoice.id]) await this.#settle(row, withSettlement(row.invoices, invoice.id))
    if (invoice.subscriptionId === null || !isPayment(invoice)) return
    const before = (await this.#rows(invoice.subscriptionId)).filter(({ periodEnd }) => periodEnd < invoice.periodEnd)
    await this.#settleAll(before, withLaterPayment)
  }

  /**
   * A tenant is back that was deleted: what was paid meanwhile could not activate it, and a grace that was over not suspend it. Under the
   * lock of the payer.
   */
  async takeBack(tenantId: string): Promise<void> {
    const rows = await queryOf(this.#dependencies)
      .selectFrom('billingDunning')
      .selectAll()
      .where('tenantId', '=', tenantId)
      .where('closedAt', 'is not', null)
      .where('suspendedAt', 'is not', null)
      .execute()
    for (const row of rows) await this.suspensions.end(row)
    const due = (await this.open(tenantId)).find(isSuspensionDue)
    if (due) await this.suspensions.begin(due)
  }

  isFinal(invoice: ProviderInvoice): boolean {
    return isFinal(invoice, this.#policy)
  }

  /** A subscription has ended: nothing is tried any more. What was suspended stays so until somebody pays. */
  async end(subscriptionId: string): Promise<void> {
    await this.#settleAll(await this.#rows(subscriptionId))
  }

  /** Somebody has paid for a subscription of the tenant: what is left of those that have ended is over. */
  async paid(tenantId: string): Promise<void> {
    await this.#settleAll((await this.open(tenantId)).filter(({ state }) => state === 'suspended'))
  }

  /** Carries out what is due; returns how many cases that were. Each in a transaction of its own, so that none holds up another. */
  async sweep(signal?: AbortSignal): Promise<number> {
    if (this.#policy.action === 'none') return 0
    const due = await this.#dependencies.kernel.database
      .query<BillingTables & { tenants: { id: string; status: string } }>()
      .selectFrom('billingDunning')
      .innerJoin('billingSubscriptions', 'billingSubscriptions.id', 'billingDunning.subscriptionId')
      .innerJoin('tenants', 'tenants.id', 'billingDunning.tenantId')
      .select(['subscriptionId', 'billingDunning.periodEnd', 'billingDunning.tenantId', 'customerId'])
      .where(({ or, and, eb }) =>
        or([
          and([eb('state', '=', 'grace'), eb('graceUntil', '<=', this.#dependencies.kernel.clock.now())]),
          and([eb('state', '=', 'suspended'), eb('isSuspensionDue', '=', true), eb('tenants.status', '=', 'active')]),
        ]),
      )
      .orderBy('graceUntil')
      .execute()
    const { log } = this.#dependencies.kernel
    let done = 0
    const failures: unknown[] = []
    for (const one of due) {
      if (signal?.aborted) break
      try {
        if (await this.#carryOut(one)) done += 1
      } catch (error) {
        if (!(error instanceof PaymentError && error.isPassing)) failures.push(error)
        else log.warn({ tenantId: one.tenantId, code: error.code }, 'a grace is over, and the provider cannot be asked')
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, `graces that could not be ended: ${failures.length}`)
    return done
  }

  get #policy() {
    return this.#dependencies.settings.dunning
  }

  #carryOut({ subscriptionId, periodEnd, tenantId, customerId }: Due): Promise<boolean> {
    const reads = new ProviderReads(this.#dependencies)
    const lock = async () => {
      await lockCustomer(this.#dependencies, customerId)
      await lockPayer(this.#dependencies, tenantId)
    }
    return reads.transaction(lock, async () => {
      const row = await this.#row(subscriptionId, periodEnd)
      if (!row || !(row.state === 'grace' || isSuspensionDue(row))) return false
      if (await this.#settle(row, asOfNow(row, reads))) return true
      const settled = await this.#row(subscriptionId, periodEnd)
      if (!settled || !isSuspensionDue(settled)) return false
      await this.suspensions.begin(settled)
      return true
    })
  }

  async #opened(tenantId: string, subscriptionId: string, periodEnd: Date): Promise<DunningRow> {
    const row: DunningRow = {
      subscriptionId,
      periodEnd,
      tenantId,
      invoices: {},
      state: 'retrying',
      graceUntil: null,
      suspendedAt: null,
      isSuspensionDue: false,
      openedAt: this.#dependencies.kernel.clock.now(),
      closedAt: null,
    }
    await queryOf(this.#dependencies)
      .insertInto('billingDunning')
      .values({ ...row, invoices: '{}' as never })
      .execute()
    return row
  }

  /** Each as it is when its turn comes: what becomes of one may concern the next. */
  async #settleAll(rows: readonly DunningRow[], known = (records: Records) => records): Promise<void> {
    for (const { subscriptionId, periodEnd } of rows) {
      const row = await this.#row(subscriptionId, periodEnd)
      if (row) await this.#settle(row, known(row.invoices))
    }
  }

  /** Brings a case to what is known. True when something has happened to the tenant. */
  async #settle(row: DunningRow, invoices: Records): Promise<boolean> {
    if (row.closedAt !== null && isDeepStrictEqual(invoices, row.invoices)) return false
    const now = this.#dependencies.kernel.clock.now()
    const endedAt = await this.#subscriptions.endOf(row.subscriptionId)
    const standing = standingOf(invoices, endedAt, this.#policy, now)
    const state = await this.#stateOf(row.tenantId, standing, endedAt)
    const isClosed = state === 'recovered' || state === 'ended'
    await this.#write(row, {
      invoices: JSON.stringify(invoices) as never,
      state,
      graceUntil: isClosed ? null : untilOf(standing),
      closedAt: isClosed ? (row.closedAt ?? now) : null,
    })
    if (state !== row.state) await this.#record(row, state)
    await this.#subscriptions.writePlan(row.tenantId)
    if (state === row.state) return false
    if (state === 'suspended') await this.suspensions.begin(row)
    if (row.state === 'suspended') await this.suspensions.end(row)
    return state === 'suspended' || state === 'downgraded'
  }

  async #stateOf(tenantId: string, standing: Standing, endedAt: Date | null): Promise<DunningRow['state']> {
    if (standing.state === 'good') return 'recovered'
    if (standing.state !== 'over') return standing.state
    const { action } = this.#policy
    if (endedAt === null) return APPLIED[action]
    if (action !== 'suspend') return 'ended' // there is no plan to be taken away any more
    return (await wasReportedPaid(this.#dependencies, tenantId, endedAt)) ? 'recovered' : 'suspended'
  }

  async #record({ tenantId, subscriptionId, state }: DunningRow, to: DunningRow['state']): Promise<void> {
    await recordChange(this.#dependencies.kernel.events, {
      action: 'billing.dunning',
      tenantId,
      target: `subscription:${subscriptionId}`,
      before: { state },
      after: { state: to },
    })
  }

  async #write({ subscriptionId, periodEnd }: DunningRow, set: Partial<DunningRow>): Promise<void> {
    await queryOf(this.#dependencies)
      .updateTable('billingDunning')
      .set(set)
      .where('subscriptionId', '=', subscriptionId)
      .where('periodEnd', '=', periodEnd)
      .execute()
  }

  #rows(subscriptionId: string): Promise<DunningRow[]> {
    return queryOf(this.#dependencies)
      .selectFrom('billingDunning')
      .selectAll()
      .where('subscriptionId', '=', subscriptionId)
      .execute()
  }

  /** The one that has an invoice, or else that of its billing period. */
  async #caseOf({ id, subscriptionId, periodEnd }: ProviderInvoice): Promise<DunningRow | undefined> {
    if (subscriptionId === null) return undefined
    const holding = (await this.#rows(subscriptionId)).find(({ invoices }) => invoices[id])
    return holding ?? this.#row(subscriptionId, periodEnd)
  }

  async #row(subscriptionId: string, periodEnd: Date): Promise<DunningRow | undefined> {
    return (await this.#rows(subscriptionId)).find((row) => row.periodEnd.getTime() === periodEnd.getTime())
  }
}

/** What has failed may be paid by now, and nobody have heard of it: nothing is taken away before the provider was asked. */
function asOfNow({ subscriptionId, periodEnd, invoices }: DunningRow, reads: ProviderReads): Records {
  const paid = reads.lastPaid(subscriptionId)
  if (paid && paid.periodEnd > periodEnd) return withLaterPayment(invoices)
  let known = invoices
  for (const [id, { isSettled }] of Object.entries(invoices)) {
    const invoice = isSettled ? undefined : reads.invoice(id)
    if (invoice && isDone(invoice)) known = withSettlement(known, id)
  }
  return known
}

const isSuspensionDue = ({ state, isSuspensionDue }: DunningRow): boolean => state === 'suspended' && isSuspensionDue

const untilOf = (standing: Standing): Date | null => ('until' in standing ? standing.until : null)
