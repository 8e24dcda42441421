/**
 * Stores the dunning cases: a row for each billing period of a subscription with a failed payment. Applies the action
 * of the policy at the end of a grace period, and reverts it after the payment. The states are computed in dunning.ts.
 *
 * - New facts update a case in any order, so a suspension is also reverted if the payment or the end of the
 *   subscription is received late.
 * - A closed case changes only with a new fact.
 */
import { isDeepStrictEqual } from 'node:util'
import { recordChange } from '../../../kernel/events/changes.ts'
import { wasReportedPaid } from '../inbox/received-events.ts'
import { type BillingDependencies, lockCustomer, queryOf } from '../model/dependencies.ts'
import { isDone, isPayment, PaymentError, type ProviderInvoice } from '../model/provider.ts'
import type { BillingTables, DunningRow, Records } from '../model/tables.ts'
import { ProviderReads } from '../provider/provider-reads.ts'
import { lockPayer, type Subscriptions } from '../subscriptions/subscriptions.ts'
import { type DunningState, dunningStateOf, isFinal, withFailure, withLaterPayment, withSettlement } from './dunning.ts'
import { DunningSuspensions, openCases } from './suspensions.ts'

/** State of a case after its grace period, by action. */
const APPLIED = { downgrade: 'downgraded', suspend: 'suspended', none: 'grace' } as const

export interface Failure {
  readonly at: Date
  /**
   * The provider's current invoice, which may have more failed attempts. Undefined if the provider no longer has it.
   */
  readonly current: ProviderInvoice | undefined
  /** Whether the invoice is paid or no longer owed. */
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

  /** Open cases of the tenant, latest period first. */
  open(tenantId: string): Promise<DunningRow[]> {
    return openCases(this.#dependencies, [tenantId])
  }

  /**
   * Records a failed attempt. The first invoice of a subscription has no case, because the subscription is not active
   * yet.
   */
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
   * Records that an invoice is paid or no longer owed. A payment also settles earlier periods. A case that is opened
   * later by a late failure checks the received events for such a payment.
   */
  async settled(invoice: ProviderInvoice): Promise<void> {
    const row = await this.#caseOf(invoice)
    if (row?.invoices[invoice.id]) await this.#settle(row, withSettlement(row.invoices, invoice.id))
    if (invoice.subscriptionId === null || !isPayment(invoice)) return
    const before = (await this.#rows(invoice.subscriptionId)).filter(({ periodEnd }) => periodEnd < invoice.periodEnd)
    await this.#settleAll(before, withLaterPayment)
  }

  /**
   * Applies the dunning state to a restored tenant: activates it if it was paid during the deletion, or suspends it if
   * a grace period ended. Requires the payer's lock.
   */
  async restore(tenantId: string): Promise<void> {
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

  /** Records the end of a subscription. A suspension stays until a payment. */
  async end(subscriptionId: string): Promise<void> {
    await this.#settleAll(await this.#rows(subscriptionId))
  }

  /** Records a payment of the tenant, which closes the suspended cases of ended subscriptions. */
  async paid(tenantId: string): Promise<void> {
    await this.#settleAll((await this.open(tenantId)).filter(({ state }) => state === 'suspended'))
  }

  /**
   * Applies due actions; returns their number. Each case has a separate transaction, so a failure does not block the
   * others.
   */
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
        else
          log.warn(
            { tenantId: one.tenantId, code: error.code },
            'the end of a grace period was postponed, because the payment provider was unavailable',
          )
      }
    }
    if (failures.length > 0)
      throw new AggregateError(failures, `grace periods that could not be ended: ${failures.length}`)
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

  /** Reads each case again before it is settled, because settling one case may change the next one. */
  async #settleAll(rows: readonly DunningRow[], known = (records: Records) => records): Promise<void> {
    for (const { subscriptionId, periodEnd } of rows) {
      const row = await this.#row(subscriptionId, periodEnd)
      if (row) await this.#settle(row, known(row.invoices))
    }
  }

  /** Updates a case with the known facts. Returns true if the tenant was suspended or downgraded. */
  async #settle(row: DunningRow, invoices: Records): Promise<boolean> {
    if (row.closedAt !== null && isDeepStrictEqual(invoices, row.invoices)) return false
    const now = this.#dependencies.kernel.clock.now()
    const endedAt = await this.#subscriptions.endOf(row.subscriptionId)
    const computed = dunningStateOf(invoices, endedAt, this.#policy, now)
    const state = await this.#stateOf(row.tenantId, computed, endedAt)
    const isClosed = state === 'recovered' || state === 'ended'
    await this.#write(row, {
      invoices: JSON.stringify(invoices) as never,
      state,
      graceUntil: isClosed ? null : untilOf(computed),
      closedAt: isClosed ? (row.closedAt ?? now) : null,
    })
    if (state !== row.state) await this.#record(row, state)
    await this.#subscriptions.writePlan(row.tenantId)
    if (state === row.state) return false
    if (state === 'suspended') await this.suspensions.begin(row)
    if (row.state === 'suspended') await this.suspensions.end(row)
    return state === 'suspended' || state === 'downgraded'
  }

  async #stateOf(tenantId: string, computed: DunningState, endedAt: Date | null): Promise<DunningRow['state']> {
    if (computed.state === 'good') return 'recovered'
    if (computed.state !== 'over') return computed.state
    const { action } = this.#policy
    if (endedAt === null) return APPLIED[action]
    if (action !== 'suspend') return 'ended' // the ended subscription has no plan to downgrade
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

  /** Case that contains the invoice, or the case of its billing period. */
  async #caseOf({ id, subscriptionId, periodEnd }: ProviderInvoice): Promise<DunningRow | undefined> {
    if (subscriptionId === null) return undefined
    const holding = (await this.#rows(subscriptionId)).find(({ invoices }) => invoices[id])
    return holding ?? this.#row(subscriptionId, periodEnd)
  }

  async #row(subscriptionId: string, periodEnd: Date): Promise<DunningRow | undefined> {
    return (await this.#rows(subscriptionId)).find((row) => row.periodEnd.getTime() === periodEnd.getTime())
  }
}

/**
 * Adds payments that only the provider knows. Called before the action, so that a late event does not suspend a paying
 * tenant.
 */
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

const untilOf = (computed: DunningState): Date | null => ('until' in computed ? computed.until : null)
