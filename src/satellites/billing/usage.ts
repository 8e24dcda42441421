/**
 * Usage that is paid for. A quota's counter of a day is what was used: it is counted in the same step of the store as the quota, and
 * only grows. Every `flushMs` what has come since the last time becomes a row and a job, in the transaction that moves the mark up to
 * which a counter is reported; so each unit is in exactly one row, whoever closes, and how often. The provider knows a row by its id:
 * one that is sent twice counts once.
 *
 * What is used before a tenant has a customer, on a day before, is nobody's to pay.
 */
import { DAY_MS, dateOf, dayOf } from '../../kernel/counters.ts'
import { uuidv7 } from '../../kernel/ids.ts'
import type { Customers } from './customers.ts'
import { ReportUsageBatch } from './job-types.ts'
import { type BillingPart, queryOf } from './part.ts'
import { faultOf } from './payments.ts'

const TENANTS_AT_ONCE = 20
/** Its job was lost. */
const STUCK_MS = 600_000
const RESENT_AT_ONCE = 500
/** Counters are gone by then. */
const MARKS_KEPT_DAYS = 7

interface Used {
  readonly meter: string
  readonly quantity: number
  readonly at: Date
}

export class Usage {
  readonly #part: BillingPart
  readonly #customers: Customers
  readonly #quotas: readonly string[]
  /** What counters had come to when this process closed them last: nothing to do while they stand still. */
  readonly #seen = new Map<string, string>()

  constructor(part: BillingPart, customers: Customers) {
    this.#part = part
    this.#customers = customers
    this.#quotas = Object.keys(part.settings.usage)
  }

  /** Hands on what all tenants have used of these quotas; default all. Answers how many batches that came to. */
  async closeAll(quotas: readonly string[] = this.#quotas, signal?: AbortSignal): Promise<number> {
    if (quotas.length === 0) return 0
    const all = await this.#customers.all()
    let batches = 0
    for (let first = 0; first < all.length && !signal?.aborted; first += TENANTS_AT_ONCE) {
      const some = all.slice(first, first + TENANTS_AT_ONCE)
      const closed = await Promise.all(some.map(({ tenantId, mappedAt }) => this.close(tenantId, mappedAt, quotas)))
      batches += closed.reduce((sum, count) => sum + count, 0)
    }
    return batches
  }

  async close(tenantId: string, mappedAt: Date, quotas: readonly string[] = this.#quotas): Promise<number> {
    const { store, database } = this.#part.kernel
    const { nowMs, today, yesterday } = await store.counters.counted(tenantId, quotas)
    const day = dayOf(nowMs)
    const isBefore = dayOf(mappedAt.getTime()) < day
    const counted = quotas.flatMap((quota) => [
      { quota, day, count: today.get(quota) ?? 0, at: new Date(nowMs) },
      ...(isBefore
        ? [{ quota, day: day - 1, count: yesterday.get(quota) ?? 0, at: new Date(day * DAY_MS - 1_000) }]
        : []),
    ])
    const some = counted.filter(({ count }) => count > 0)
    const key = `${tenantId} ${quotas.join(' ')}`
    const present = JSON.stringify(some.map(({ quota, day, count }) => [quota, day, count]))
    if (some.length === 0 || this.#seen.get(key) === present) return 0
    const batches = await database.transaction(async () => {
      const used: Used[] = []
      for (const { quota, day, count, at } of some) {
        const quantity = await this.#moved(tenantId, quota, dateOf(day), count)
        const { meter } = this.#part.settings.usage[quota] ?? {}
        if (quantity > 0 && meter !== undefined) used.push({ meter, quantity, at })
      }
      for (const one of used) await this.#add(uuidv7(), tenantId, one)
      return used.length
    })
    this.#seen.set(key, present)
    return batches
  }

  /** What a host has counted by itself. The same id is reported once. */
  async report(tenantId: string, used: Used, id: string): Promise<boolean> {
    return this.#part.kernel.database.transaction(() => this.#add(id, tenantId, used))
  }

  /** Sends a batch; does nothing when it was sent. Throws what is to be tried again. */
  async send(id: string): Promise<void> {
    const { part } = { part: this.#part }
    const row = await queryOf(part)
      .selectFrom('billingUsage')
      .selectAll()
      .where('id', '=', id)
      .where('sentAt', 'is', null)
      .executeTakeFirst()
    if (!row) return
    const customerId = await this.#customers.of(row.tenantId)
    if (customerId === undefined) return // it waits for one
    try {
      const { tenantId: _, usedAt, meter, quantity } = row
      await part.payments.reportUsage({ id, customerId, meter, quantity, at: usedAt })
      await this.#settled(id, { sentAt: part.kernel.clock.now(), errorCode: null })
    } catch (error) {
      const fault = faultOf(error)
      await this.#settled(id, { errorCode: fault.code })
      if (fault.isPassing) throw error
      part.kernel.log.error({ id, code: fault.code }, 'usage could not be reported; billing:doctor says of it')
    }
  }

  /** Sends those again whose job was lost, or that had to wait. */
  async resend(): Promise<number> {
    const rows = await queryOf(this.#part)
      .selectFrom('billingUsage')
      .select(['id', 'tenantId'])
      .where('sentAt', 'is', null)
      .where('usedAt', '<', new Date(this.#part.kernel.clock.now().getTime() - STUCK_MS))
      .orderBy('usedAt')
      .limit(RESENT_AT_ONCE)
      .execute()
    for (const { id, tenantId } of rows)
      await this.#part.kernel.jobs.send(ReportUsageBatch, { id }, { tenantId, key: id })
    return rows.length
  }

  async cleanUp(): Promise<void> {
    const { kernel, settings } = this.#part
    const now = kernel.clock.now().getTime()
    await kernel.database.sql('delete from multitenancy.billing_marks where day < $1::date', [
      dateOf(dayOf(now) - MARKS_KEPT_DAYS),
    ])
    await kernel.database.sql('delete from multitenancy.billing_usage where sent_at < $1', [
      new Date(now - settings.webhook.retentionDays * DAY_MS),
    ])
  }

  /** By how much the mark has moved up to this count; 0 when somebody has moved it that far. */
  async #moved(tenantId: string, quota: string, day: string, count: number): Promise<number> {
    const { database } = this.#part.kernel
    await database.sql(
      `insert into multitenancy.billing_marks (tenant_id, quota, day, counted) values ($1, $2, $3::date, 0)
       on conflict do nothing`,
      [tenantId, quota, day],
    )
    const { rows } = await database.sql(
      `update multitenancy.billing_marks as marks set counted = $4 from (
         select counted from multitenancy.billing_marks where tenant_id = $1 and quota = $2 and day = $3::date for update) before
       where marks.tenant_id = $1 and marks.quota = $2 and marks.day = $3::date and before.counted < $4
       returning $4::bigint - before.counted as moved`,
      [tenantId, quota, day, count],
    )
    return Number(rows[0]?.moved ?? 0)
  }

  async #add(id: string, tenantId: string, { meter, quantity, at }: Used): Promise<boolean> {
    const { database, jobs } = this.#part.kernel
    const { rows } = await database.sql(
      `insert into multitenancy.billing_usage (id, tenant_id, meter, quantity, used_at) values ($1, $2, $3, $4, $5)
       on conflict do nothing returning id`,
      [id, tenantId, meter, quantity, at],
    )
    if (rows.length === 0) return false
    await jobs.send(ReportUsageBatch, { id }, { tenantId, key: id })
    return true
  }

  async #settled(id: string, set: { sentAt?: Date; errorCode: ReturnType<typeof faultOf>['code'] | null }) {
    await queryOf(this.#part).updateTable('billingUsage').set(set).where('id', '=', id).execute()
  }
}
