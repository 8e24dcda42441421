/**
 * Reports metered usage to the provider in batches. A batch is a row and a job, written in one transaction; the row's
 * id is the identifier at the provider, so a batch that is sent twice counts once. The row contains the time of the
 * next attempt, so an outage of any length neither loses a batch nor creates more than one job for it.
 *
 *   waiting ──sent──► sent            kept for a while, to recognize repeated reports
 *      │ ▲
 *      │ └── failed: retried after 1, 2, 4 .. 15 minutes; after an hour if the provider rejected it
 *      ├──── 23 hours after a report that may have counted ──► held     an operator decides (the doctor reports it);
 *      │                                                                also unsent batches after a backoffice restore
 *      └──── 35 days old, and no report may have counted ──► expired    too old for the provider
 *
 * The provider remembers an identifier for one day. So a report is noted in the row before it leaves, and the note is
 * reverted if the report certainly has not counted. A batch with an older note is not sent again, because it could
 * count twice.
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

/** Maximum age of usage that the provider accepts. */
export const REPORTABLE_DAYS = 35

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** An hour less than the provider remembers an identifier, for transmission time and clock differences. */
const RESENDABLE_MS = 23 * HOUR_MS
/** After this time the job of a batch is considered lost. */
const STUCK_MS = 10 * MINUTE_MS
const LONGEST_WAIT_MS = 15 * MINUTE_MS
const REJECTED_WAIT_MS = HOUR_MS
const MAX_RESENT = 500
const CONCURRENCY = 4
/** The store's daily counters have expired by then. */
const WATERMARK_RETENTION_DAYS = 7

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

  /** Records usage counted by a host. Returns false for a repeated report; rejects the id of a different report. */
  async report(tenantId: string, used: Used, id: string): Promise<boolean> {
    const { database } = this.#dependencies.kernel
    return database.transaction(async () => {
      await lockTenant(database, tenantId)
      if (await this.add(id, tenantId, used)) return true
      const known = await this.#row(id)
      if (known && (known.tenantId !== tenantId || known.meter !== used.meter || known.quantity !== used.quantity)) {
        throw invalid([{ path: 'id', message: 'must not be the id of another report' }])
      }
      return false
    })
  }

  /** Returns false if a batch with this id exists. */
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

  /** Sends a batch that is not sent yet. The row contains the result. */
  async send(id: string): Promise<void> {
    await this.#send(id)
  }

  /**
   * Sends the tenant's unsent batches until the provider is unavailable. Returns the number of batches that remain
   * unsent.
   */
  async sendAll(tenantId: string): Promise<number> {
    const { database } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `select id from multitenancy.billing_usage where tenant_id = $1 and sent_at is null and next_attempt_at is not null
       order by used_at limit $2`,
      [tenantId, MAX_RESENT],
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

  /** Creates jobs for due batches, which were delayed or have lost their job. Returns their number. */
  async resend(signal?: AbortSignal): Promise<number> {
    for (let sent = 0; ; ) {
      const together = await this.#resendSome()
      sent += together
      if (together < MAX_RESENT || signal?.aborted) return sent
    }
  }

  /** After a restore of the backoffice: batches that are unsent in the dump may have been sent since. */
  async holdAll(): Promise<void> {
    const { database, log } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `update multitenancy.billing_usage set held_at = $1, next_attempt_at = null
       where sent_at is null and next_attempt_at is not null returning id`,
      [this.#in(0)],
    )
    if (rows.length > 0)
      log.warn(
        { batches: rows.length },
        'unsent usage was held after a restore, because it may have been reported since the dump',
      )
  }

  async cleanUp(): Promise<void> {
    const { kernel, settings } = this.#dependencies
    const { retentionDays } = settings.webhook
    await kernel.database.sql('delete from multitenancy.billing_usage_watermarks where day < $1::date', [
      dateOf(dayOf(kernel.clock.now().getTime()) - WATERMARK_RETENTION_DAYS),
    ])
    await kernel.database.sql('delete from multitenancy.billing_usage where sent_at < $1', [
      this.#in(-retentionDays * DAY_MS),
    ])
    await kernel.database.sql('delete from multitenancy.billing_usage where sent_at is null and used_at < $1', [
      this.#in(-(REPORTABLE_DAYS + retentionDays) * DAY_MS),
    ])
  }

  /** Returns the error of a failed report. */
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
      // The id of the row, because the provider compares identifiers case-sensitively.
      await this.#dependencies.payments.reportUsage({ id: row.id, customerId, meter, quantity, at })
    } catch (error) {
      if (error instanceof UsageNotTaken) await this.#revertNote(id)
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
        [this.#in(STUCK_MS), this.#in(0), MAX_RESENT],
      )
      await jobs.sendAll(
        ReportUsageBatch,
        rows.map(({ id, tenantId }) => ({ data: { id }, tenantId, key: id })),
      )
      return rows.length
    })
  }

  /** Called before a report leaves. Returns false if the batch was sent, or may have counted too long ago. */
  async #note(id: string): Promise<boolean> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      `update multitenancy.billing_usage set first_sent_at = coalesce(first_sent_at, $2), unanswered = unanswered + 1
       where id = $1 and sent_at is null and next_attempt_at is not null and (first_sent_at is null or first_sent_at > $3)
       returning id`,
      [id, this.#in(0), this.#in(-RESENDABLE_MS)],
    )
    return rows.length > 0
  }

  /** Called when a report certainly has not counted. Keeps the notes of other reports. */
  async #revertNote(id: string): Promise<void> {
    await this.#dependencies.kernel.database.sql(
      `update multitenancy.billing_usage set unanswered = unanswered - 1,
         first_sent_at = case when unanswered > 1 then first_sent_at end
       where id = $1 and sent_at is null and unanswered > 0`,
      [id],
    )
  }

  async #failed({ id, tenantId, meter, attempts }: UsageRow, error: PaymentError): Promise<PaymentError> {
    const { code, isPassing } = error
    const waitMs = isPassing ? Math.min(MINUTE_MS * 2 ** attempts, LONGEST_WAIT_MS) : REJECTED_WAIT_MS
    const set = { errorCode: code, attempts: attempts + 1, nextAttemptAt: this.#in(waitMs) }
    await this.#set(id, set).where('nextAttemptAt', 'is not', null).execute()
    this.#dependencies.kernel.log.warn({ id, tenantId, meter, code }, 'a usage report failed and was scheduled again')
    return error
  }

  async #hold(row: UsageRow): Promise<undefined> {
    if (!(await this.#stopped(row, { heldAt: this.#in(0) }))) return
    const { id, tenantId, meter, quantity, usedAt, firstSentAt } = row
    this.#dependencies.kernel.log.error(
      { id, tenantId, meter, quantity, usedAt, firstSentAt },
      'usage was held: the payment provider did not confirm an earlier report. It is not sent again until an operator has checked it',
    )
  }

  async #expire(row: UsageRow): Promise<undefined> {
    if (!(await this.#stopped(row, {}))) return
    const { id, tenantId, meter, quantity, usedAt } = row
    this.#dependencies.kernel.log.error(
      { id, tenantId, meter, quantity, usedAt },
      `usage expired: it was not reported within ${REPORTABLE_DAYS} days, and the payment provider no longer accepts it`,
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

  /** Stops sending a batch. Returns false if another process stopped or reported it. */
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
