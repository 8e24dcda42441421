/**
 * Usage that is paid for, in batches. A batch is a row and a job, in one transaction; the provider knows it by the row's id, so one that
 * is sent twice counts once. The row says when it is due, and a job only that somebody is to look: so an outage, however long, neither
 * loses a batch nor makes more than one job of it.
 *
 *   waiting ──sent──► sent            kept for a while, for reports that are repeated
 *      │ ▲
 *      │ └── not sent: due again after 1, 2, 4 .. 15 minutes; after an hour where the provider has refused it
 *      └──── 35 days old ──► expired  the provider would not take it any more: the doctor tells of it until it is removed
 */
import { DAY_MS, dateOf, dayOf } from '../../kernel/counters.ts'
import { invalid } from '../../kernel/errors.ts'
import { lockTenant } from '../../tenants/existing.ts'
import type { Customers } from './customers.ts'
import { ReportUsageBatch } from './job-types.ts'
import { type BillingPart, queryOf } from './part.ts'
import { faultOf, PaymentsFault } from './payments.ts'
import type { UsageRow } from './tables.ts'

/** For so long the provider takes what was used. */
export const REPORTABLE_DAYS = 35

const MINUTE_MS = 60_000
/** By then a job was lost. */
const STUCK_MS = 10 * MINUTE_MS
const LONGEST_WAIT_MS = 15 * MINUTE_MS
const REFUSED_WAIT_MS = 60 * MINUTE_MS
const RESENT_AT_ONCE = 500
/** Counters are gone by then. */
const MARKS_KEPT_DAYS = 7

export interface Used {
  readonly meter: string
  readonly quantity: number
  readonly at: Date
}

export class Usage {
  readonly #part: BillingPart
  readonly #customers: Customers

  constructor(part: BillingPart, customers: Customers) {
    this.#part = part
    this.#customers = customers
  }

  /** What a host has counted by itself. Answers false when it was reported before; that id for something else is refused. */
  async report(tenantId: string, used: Used, id: string): Promise<boolean> {
    const { database } = this.#part.kernel
    return database.transaction(async () => {
      await lockTenant(database, tenantId)
      if (await this.add(id, tenantId, used)) return true
      const known = await this.#row(id)
      if (known && (known.tenantId !== tenantId || known.meter !== used.meter || known.quantity !== used.quantity)) {
        throw invalid([{ path: 'id', message: 'stands for another report: give each its own' }])
      }
      return false
    })
  }

  /** False when there is one of that id. */
  async add(id: string, tenantId: string, { meter, quantity, at }: Used): Promise<boolean> {
    const { database, jobs } = this.#part.kernel
    const { rows } = await database.sql(
      `insert into multitenancy.billing_usage (id, tenant_id, meter, quantity, used_at, next_attempt_at)
       values ($1, $2, $3, $4, $5, $6) on conflict do nothing returning id`,
      [id, tenantId, meter, quantity, at, this.#in(STUCK_MS)],
    )
    if (rows.length === 0) return false
    await jobs.send(ReportUsageBatch, { id }, { tenantId, key: id })
    return true
  }

  /** Sends a batch; does nothing when it was sent. What comes of it is in its row. */
  async send(id: string): Promise<void> {
    const row = await this.#row(id)
    if (!row || row.sentAt !== null || row.nextAttemptAt === null) return
    if (row.usedAt <= this.#in(-REPORTABLE_DAYS * DAY_MS)) return this.#expire(row)
    try {
      const { usedAt: at, meter, quantity } = row
      const customerId = await this.#customers.payerOf(row.tenantId)
      if (customerId === undefined) throw new PaymentsFault('customer_not_found')
      await this.#part.payments.reportUsage({ id, customerId, meter, quantity, at })
      await this.#set(id, { sentAt: this.#in(0), errorCode: null })
    } catch (error) {
      await this.#failed(row, faultOf(error))
    }
  }

  /** Sends what is due: it had to wait, or its job was lost. Answers how many that were. */
  async resend(signal?: AbortSignal): Promise<number> {
    for (let sent = 0; ; ) {
      const together = await this.#resendSome()
      sent += together
      if (together < RESENT_AT_ONCE || signal?.aborted) return sent
    }
  }

  async cleanUp(): Promise<void> {
    const { kernel, settings } = this.#part
    const { retentionDays } = settings.webhook
    await kernel.database.sql('delete from multitenancy.billing_marks where day < $1::date', [
      dateOf(dayOf(kernel.clock.now().getTime()) - MARKS_KEPT_DAYS),
    ])
    await kernel.database.sql('delete from multitenancy.billing_usage where sent_at < $1', [
      this.#in(-retentionDays * DAY_MS),
    ])
    await kernel.database.sql('delete from multitenancy.billing_usage where sent_at is null and used_at < $1', [
      this.#in(-(REPORTABLE_DAYS + retentionDays) * DAY_MS),
    ])
  }

  #resendSome(): Promise<number> {
    const { database, jobs } = this.#part.kernel
    return database.transaction(async () => {
      const { rows } = await database.sql(
        `update multitenancy.billing_usage set next_attempt_at = $1 where id in (
           select id from multitenancy.billing_usage where sent_at is null and next_attempt_at <= $2
           order by next_attempt_at limit $3 for update skip locked)
         returning id, tenant_id as "tenantId"`,
        [this.#in(STUCK_MS), this.#in(0), RESENT_AT_ONCE],
      )
      await jobs.sendAll(
        ReportUsageBatch,
        rows.map(({ id, tenantId }) => ({ data: { id }, tenantId, key: id })),
      )
      return rows.length
    })
  }

  async #failed({ id, tenantId, meter, attempts }: UsageRow, { code, isPassing }: PaymentsFault): Promise<void> {
    const waitMs = isPassing ? Math.min(MINUTE_MS * 2 ** attempts, LONGEST_WAIT_MS) : REFUSED_WAIT_MS
    await this.#set(id, { errorCode: code, attempts: attempts + 1, nextAttemptAt: this.#in(waitMs) })
    this.#part.kernel.log.warn({ id, tenantId, meter, code }, 'usage could not be reported; it is tried again')
  }

  async #expire({ id, tenantId, meter, quantity, usedAt }: UsageRow): Promise<void> {
    await this.#set(id, { nextAttemptAt: null })
    this.#part.kernel.log.error(
      { id, tenantId, meter, quantity, usedAt },
      `usage was not reported within ${REPORTABLE_DAYS} days: the provider of payments does not take it any more`,
    )
  }

  #row(id: string): Promise<UsageRow | undefined> {
    return queryOf(this.#part).selectFrom('billingUsage').selectAll().where('id', '=', id).executeTakeFirst()
  }

  async #set(id: string, set: Partial<UsageRow>): Promise<void> {
    await queryOf(this.#part)
      .updateTable('billingUsage')
      .set(set)
      .where('id', '=', id)
      .where('sentAt', 'is', null)
      .execute()
  }

  #in(ms: number): Date {
    return new Date(this.#part.kernel.clock.now().getTime() + ms)
  }
}
