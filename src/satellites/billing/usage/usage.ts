/**
 * Usage that is paid for, in batches. A batch is a row and a job, in one transaction; the provider knows it by the row's id, so one that
 * is sent twice counts once. The row says when it is due, and a job only that somebody is to look: so an outage, however long, neither
 * loses a batch nor makes more than one job of it.
 *
 *   waiting ──sent──► sent            kept for a while, for reports that are repeated
 *      │ ▲
 *      │ └── not sent: due again after 1, 2, 4 .. 15 minutes; after an hour where the provider has refused it
 *      ├──── 23 hours after a report that may have counted ──► held     somebody has to look: the doctor tells how;
 *      │                                                                so whatever waits when the backoffice is brought back
 *      └──── 35 days old, and none may have ──► expired                 the provider would not take it any more
 *
 * The provider knows an id for a day only. So before a report leaves it is noted in the row, and taken back when it certainly has not
 * counted; what is noted longer is not sent again, for it would count twice.
 */

import { forEachConcurrent } from '../../../kernel/base/concurrency.ts'
import { invalid } from '../../../kernel/base/errors.ts'
import { DAY_MS, dateOf, dayOf } from '../../../kernel/store/counters.ts'
import { lockTenant } from '../../../tenants/registry/tenant-assertions.ts'
import { type BillingDependencies, queryOf } from '../model/dependencies.ts'
import { ReportUsageBatch } from '../model/job-types.ts'
import { PaymentError, paymentErrorOf } from '../model/provider.ts'
import type { UsageRow } from '../model/tables.ts'
import { UsageNotTaken } from '../provider/usage-not-counted.ts'
import type { Customers } from '../subscriptions/customers.ts'

/** For so long the provider takes what was used. */
export const REPORTABLE_DAYS = 35

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** The provider knows what it has taken for an hour more: for the way there, and clocks that differ. */
const RESENDABLE_MS = 23 * HOUR_MS
/** By then a job was lost. */
const STUCK_MS = 10 * MINUTE_MS
const LONGEST_WAIT_MS = 15 * MINUTE_MS
const REFUSED_WAIT_MS = HOUR_MS
const RESENT_AT_ONCE = 500
const CONCURRENCY = 4
/** Counters are gone by then. */
const MARKS_KEPT_DAYS = 7

export interface Used {
  readonly meter: string
  readonly quantity: number
  readonly at: Date
}

export class Usage {
  readonly #dependencies: BillingDependencies
  readonly #customers: Customers

  constructor(dependencies: BillingDependencies, customers: Customers) {
    this.#dependencies = dependencies
    this.#customers = customers
  }

  /** What a host has counted by itself. Returns false when it was reported before; that id for something else is refused. */
  async report(tenantId: string, used: Used, id: string): Promise<boolean> {
    const { database } = this.#dependencies.kernel
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
    const { database, jobs } = this.#dependencies.kernel
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
    await this.#send(id)
  }

  /** Sends what is left of a tenant's, until the provider is away. Returns how many batches are not sent then. */
  async sendAll(tenantId: string): Promise<number> {
    const { database } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `select id from multitenancy.billing_usage where tenant_id = $1 and sent_at is null and next_attempt_at is not null
       order by used_at limit $2`,
      [tenantId, RESENT_AT_ONCE],
    )
    const unavailable = new AbortController()
    const send = async ({ id }: { id: string }) => {
      if ((await this.#send(id))?.isPassing) unavailable.abort()
    }
    await forEachConcurrent<{ id: string }>(rows, CONCURRENCY, send, unavailable.signal)
    const left = await database.sql(
      'select count(*)::int as count from multitenancy.billing_usage where tenant_id = $1 and sent_at is null',
      [tenantId],
    )
    return left.rows[0].count
  }

  /** Sends what is due: it had to wait, or its job was lost. Returns how many that were. */
  async resend(signal?: AbortSignal): Promise<number> {
    for (let sent = 0; ; ) {
      const together = await this.#resendSome()
      sent += together
      if (together < RESENT_AT_ONCE || signal?.aborted) return sent
    }
  }

  /** After the backoffice was brought back from a dump: whatever it has for not sent may have been sent since. */
  async holdAll(): Promise<void> {
    const { database, log } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `update multitenancy.billing_usage set held_at = $1, next_attempt_at = null
       where sent_at is null and next_attempt_at is not null returning id`,
      [this.#in(0)],
    )
    if (rows.length > 0) log.warn({ batches: rows.length }, 'usage may have been reported after the dump: it is held')
  }

  async cleanUp(): Promise<void> {
    const { kernel, settings } = this.#dependencies
    const { retentionDays } = settings.webhook
    await kernel.database.sql('delete from multitenancy.billing_usage_watermarks where day < $1::date', [
      dateOf(dayOf(kernel.clock.now().getTime()) - MARKS_KEPT_DAYS),
    ])
    await kernel.database.sql('delete from multitenancy.billing_usage where sent_at < $1', [
      this.#in(-retentionDays * DAY_MS),
    ])
    await kernel.database.sql('delete from multitenancy.billing_usage where sent_at is null and used_at < $1', [
      this.#in(-(REPORTABLE_DAYS + retentionDays) * DAY_MS),
    ])
  }

  /** Answers what has kept it from being taken. */
  async #send(id: string): Promise<PaymentError | undefined> {
    const row = await this.#row(id)
    if (!row || row.sentAt !== null || row.nextAttemptAt === null) return undefined
    const isTooOld = row.usedAt <= this.#in(-REPORTABLE_DAYS * DAY_MS)
    if (row.firstSentAt === null && isTooOld) return this.#expire(row)
    if (row.firstSentAt !== null && (isTooOld || row.firstSentAt <= this.#in(-RESENDABLE_MS))) return this.#hold(row)
    const { tenantId, usedAt: at, meter, quantity } = row
    const customerId = await this.#customers.payerOf(tenantId)
    if (customerId === undefined) return this.#failed(row, new PaymentError('customer_not_found'))
    if (!(await this.#note(id))) return undefined
    try {
      // By the row's spelling of the id: to the provider another one is another report.
      await this.#dependencies.payments.reportUsage({ id: row.id, customerId, meter, quantity, at })
    } catch (error) {
      if (error instanceof UsageNotTaken) await this.#takeBack(id)
      return this.#failed(row, paymentErrorOf(error))
    }
    await this.#set(id, { sentAt: this.#in(0), errorCode: null, heldAt: null }).execute()
    return undefined
  }

  #resendSome(): Promise<number> {
    const { database, jobs } = this.#dependencies.kernel
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

  /** Before a report leaves. False when it must not: it was sent meanwhile, or may have counted too long ago. */
  async #note(id: string): Promise<boolean> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      `update multitenancy.billing_usage set first_sent_at = coalesce(first_sent_at, $2), unanswered = unanswered + 1
       where id = $1 and sent_at is null and next_attempt_at is not null and (first_sent_at is null or first_sent_at > $3)
       returning id`,
      [id, this.#in(0), this.#in(-RESENDABLE_MS)],
    )
    return rows.length > 0
  }

  /** This report has not counted; another one may have. */
  async #takeBack(id: string): Promise<void> {
    await this.#dependencies.kernel.database.sql(
      `update multitenancy.billing_usage set unanswered = unanswered - 1,
         first_sent_at = case when unanswered > 1 then first_sent_at end
       where id = $1 and sent_at is null and unanswered > 0`,
      [id],
    )
  }

  async #failed({ id, tenantId, meter, attempts }: UsageRow, error: PaymentError): Promise<PaymentError> {
    const { code, isPassing } = error
    const waitMs = isPassing ? Math.min(MINUTE_MS * 2 ** attempts, LONGEST_WAIT_MS) : REFUSED_WAIT_MS
    const set = { errorCode: code, attempts: attempts + 1, nextAttemptAt: this.#in(waitMs) }
    await this.#set(id, set).where('nextAttemptAt', 'is not', null).execute()
    this.#dependencies.kernel.log.warn({ id, tenantId, meter, code }, 'usage could not be reported; it is tried again')
    return error
  }

  async #hold(row: UsageRow): Promise<undefined> {
    if (!(await this.#stopped(row, { heldAt: this.#in(0) }))) return
    const { id, tenantId, meter, quantity, usedAt, firstSentAt } = row
    this.#dependencies.kernel.log.error(
      { id, tenantId, meter, quantity, usedAt, firstSentAt },
      'usage was sent, and the provider of payments has not said whether it counts: it is not sent again before somebody has looked',
    )
  }

  async #expire(row: UsageRow): Promise<undefined> {
    if (!(await this.#stopped(row, {}))) return
    const { id, tenantId, meter, quantity, usedAt } = row
    this.#dependencies.kernel.log.error(
      { id, tenantId, meter, quantity, usedAt },
      `usage was not reported within ${REPORTABLE_DAYS} days: the provider of payments does not take it any more`,
    )
  }

  #row(id: string): Promise<UsageRow | undefined> {
    return queryOf(this.#dependencies).selectFrom('billingUsage').selectAll().where('id', '=', id).executeTakeFirst()
  }

  #set(id: string, set: Partial<UsageRow>) {
    return queryOf(this.#dependencies)
      .updateTable('billingUsage')
      .set(set)
      .where('id', '=', id)
      .where('sentAt', 'is', null)
  }

  /** It is not sent any more. False when somebody else has stopped it, or when something was heard of it meanwhile. */
  async #stopped({ id, firstSentAt }: UsageRow, set: Partial<UsageRow>): Promise<boolean> {
    const { numUpdatedRows } = await this.#set(id, { ...set, nextAttemptAt: null })
      .where('nextAttemptAt', 'is not', null)
      .where('firstSentAt', 'is not distinct from', firstSentAt)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  #in(ms: number): Date {
    return new Date(this.#dependencies.kernel.clock.now().getTime() + ms)
  }
}
