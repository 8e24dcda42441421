/**
 * Publishes each alert of a quota once a day: 80 % used, 100 % used, first rejection.
 *
 * - The row of an alert commits with its event and the event's webhook deliveries. Over all processes, one insert wins.
 * - No call waits for an alert. Alerts run one after the other, so an unresponsive database occupies one connection.
 * - An alert that was lost with a process or during an outage is published by a later call above the threshold.
 */
import { LRUCache } from 'lru-cache'
import type { z } from 'zod'
import { OutageBackoff } from '../../kernel/base/backoff.ts'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import { withoutDeadline } from '../../kernel/base/deadline.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { SCHEMA } from '../../kernel/database/database.ts'
import { isWriteOutage } from '../../kernel/database/write-failures.ts'
import type { EventType } from '../../kernel/events/events.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { dateOf, dayOf } from '../../kernel/store/counters.ts'
import { resetAtOf } from './decision.ts'
import { QuotaThresholdReached, TenantQuotaExceeded } from './events.ts'
import { type Outcome, type QuotaRequest, rejectedOf } from './outcome.ts'
import type { QuotaTables } from './tables.ts'

const REMEMBERED = 100_000
/** Limit of waiting alerts. Later calls publish the others. */
const WAITING = 10_000
const STOP_TIMEOUT_MS = 2_000
const DAYS_KEPT = 2
/** Percent of a limit. */
const THRESHOLDS = [80, 100] as const
const [LOWEST_THRESHOLD] = THRESHOLDS

/** Skips rows that another process deletes at the same time. */
const FORGET_OLD = `
  delete from ${SCHEMA}.quota_alerts where ctid = any (array(
    select ctid from ${SCHEMA}.quota_alerts where day < $1 limit 1000 for update skip locked))`

interface Alert<Type extends EventType> {
  readonly type: Type
  readonly kind: string
  readonly nowMs: number
  readonly payload: z.input<Type['own']> & { readonly tenantId: string; readonly quota: string }
}

export class Alerts {
  readonly database: Kernel['database']
  readonly #kernel: Pick<Kernel, 'database' | 'events' | 'log'>
  /** With `maxSize`, because `max` reserves 2.7 MiB for all entries. */
  readonly #reported = new LRUCache<string, true>({ maxSize: REMEMBERED, sizeCalculation: () => 1 })
  readonly #waiting = new Map<string, () => Promise<void>>()
  readonly #outage = new OutageBackoff()
  #reporting: Promise<void> | undefined

  constructor(kernel: Pick<Kernel, 'database' | 'events' | 'log'>) {
    this.database = kernel.database
    this.#kernel = kernel
  }

  /** @param usage of the quota after the call. A limit of 0 has no thresholds. */
  ofUse(tenantId: string, plan: string, { quota, limit }: QuotaRequest, usage: number, nowMs: number): void {
    if (!limit || usage * 100 < limit * LOWEST_THRESHOLD) return
    for (const threshold of THRESHOLDS) {
      if (usage * 100 < limit * threshold) continue
      const payload = { tenantId, quota, threshold, usage, limit, plan }
      this.#raise({ type: QuotaThresholdReached, kind: `${threshold}`, nowMs, payload })
    }
  }

  ofRejection(tenantId: string, outcome: Outcome): void {
    const { nowMs } = outcome.taken
    const { request, usage } = rejectedOf(outcome)
    const { quota, limit, amount: requested } = request
    if (limit === null) return
    const payload = { tenantId, quota, usage, limit, requested, plan: outcome.plan.plan, resetAt: resetAtOf(nowMs) }
    this.#raise({ type: TenantQuotaExceeded, kind: 'exceeded', nowMs, payload })
  }

  /** Resolves when all waiting alerts are published or have failed. */
  async settled(): Promise<void> {
    await this.#reporting
  }

  /** Alerts that miss the deadline are left to later calls of other processes. */
  async stop(): Promise<void> {
    await withTimeout(this.settled(), STOP_TIMEOUT_MS, () => new Error('alerts are still being published')).catch(
      (error) => this.#kernel.log.warn({ err: error }, 'alerts of quotas could not be published before the stop'),
    )
  }

  #raise<Type extends EventType>(alert: Alert<Type>): void {
    const { payload, kind, nowMs } = alert
    const key = keyOf(payload.tenantId, payload.quota, kind, nowMs)
    if (this.#reported.has(key) || this.#waiting.has(key) || this.#waiting.size >= WAITING || !this.#outage.shouldTry)
      return
    const context = currentContext()
    this.#waiting.set(key, () => enterContext(context, () => this.#report(alert)))
    this.#reporting ??= withoutDeadline(() => this.#kernel.database.outside(() => this.#reportAll()))
  }

  async #reportAll(): Promise<void> {
    for (const [key, report] of this.#waiting) {
      try {
        await report()
        this.#reported.set(key, true)
        this.#outage.answered()
      } catch (error) {
        this.#kernel.log.warn({ err: error, alert: key }, 'an alert of a quota could not be published')
        if (isWriteOutage(error)) {
          this.#outage.failed()
          this.#waiting.clear()
        }
      }
      this.#waiting.delete(key)
    }
    this.#reporting = undefined
  }

  async #report<Type extends EventType>({ type, kind, nowMs, payload }: Alert<Type>): Promise<void> {
    const { database, events } = this.#kernel
    const day = dayOf(nowMs)
    await database.transaction(async () => {
      const inserted = await database
        .query<QuotaTables>()
        .insertInto('quotaAlerts')
        .values({ day: dateOf(day), tenantId: payload.tenantId, quota: payload.quota, kind, raisedAt: new Date(nowMs) })
        .onConflict((conflict) => conflict.doNothing())
        .returning('kind')
        .executeTakeFirst()
      if (!inserted) return
      await events.publish(type, payload)
      await database.sql(FORGET_OLD, [dateOf(day - DAYS_KEPT)])
    })
  }
}

const keyOf = (tenantId: string, quota: string, kind: string, nowMs: number): string =>
  `${dayOf(nowMs)} ${tenantId} ${quota} ${kind}`
