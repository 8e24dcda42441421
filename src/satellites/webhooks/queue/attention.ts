/**
 * Rows for the list of attention: failing subscriptions, failed deliveries and overdue deliveries, by subscription. URLs are shortened to
 * their origin, because a path may be a secret.
 */
import { floorOfUuidsAt } from '../../../kernel/base/ids.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { disabledAtOf } from '../model/subscription.ts'
import type { Inspection } from './doctor-queries.ts'

const DAY_MS = 86_400_000
const DEFAULT_LIMIT = 50
/** Maximum of failed deliveries that are counted, the newest first. */
const MAX_COUNTED = 10_000

export interface AttentionOptions {
  /** Only subscriptions of this tenant. */
  readonly tenantId?: string | undefined
  /** Maximum of rows; default 50. */
  readonly limit?: number
}

export interface TroubledSubscription {
  /** Tenant of the subscription; null for the host. */
  readonly tenantId: string | null
  readonly webhookId: string
  /** Origin of the URL. */
  readonly receiver: string
  readonly since: Date
}

/** Subscription whose attempts all fail. */
export interface FailingSubscription extends TroubledSubscription {
  /** When a failed delivery disables it, if failures continue. */
  readonly disabledAt: Date
}

/** Subscription with failed or overdue deliveries. */
export interface CountedSubscription extends TroubledSubscription {
  readonly count: number
}

export interface AttentionRows<Row> {
  /** Number of subscriptions, also of those beyond the limit. */
  readonly total: number
  readonly rows: readonly Row[]
}

export class Attention {
  readonly #kernel: Kernel
  readonly #inspection: Inspection

  constructor(kernel: Kernel, inspection: Inspection) {
    this.#kernel = kernel
    this.#inspection = inspection
  }

  /** Enabled subscriptions with failures only, the longest first. */
  async failingSubscriptions({
    tenantId,
    limit = DEFAULT_LIMIT,
  }: AttentionOptions = {}): Promise<AttentionRows<FailingSubscription>> {
    const { rows } = await this.#kernel.database.sql(
      `select s.tenant_id as "tenantId", s.id as "webhookId", s.url, s.failing_since as since, count(*) over () as total
       from multitenancy.webhook_subscriptions s left join multitenancy.tenants t on t.id = s.tenant_id
       where s.failing_since is not null and s.enabled and s.deleted_at is null and s.listening_until is null
         and t.status is distinct from 'deleted' and ($1::text is null or s.tenant_id = $1)
       order by s.failing_since, s.id limit $2`,
      [tenantId ?? null, limit],
    )
    return rowsOf(rows, (row) => ({ ...toTroubled(row), disabledAt: disabledAtOf(row.since) as Date }))
  }

  /** Subscriptions with deliveries of the last 24 hours that failed, most failures first; `since` is the oldest of these dispatches. */
  async failedDeliveries({
    tenantId,
    limit = DEFAULT_LIMIT,
  }: AttentionOptions = {}): Promise<AttentionRows<CountedSubscription>> {
    const { database, clock } = this.#kernel
    const failed = `from multitenancy.webhook_deliveries where state = 'failed' and id >= $3`
    const counted = tenantId
      ? `(select of_one.* from multitenancy.webhook_subscriptions s cross join lateral (
           select webhook_id, created_at ${failed} and webhook_id = s.id limit ${MAX_COUNTED}) of_one where s.tenant_id = $1)`
      : `(select webhook_id, created_at ${failed} order by id desc limit ${MAX_COUNTED})`
    const { rows } = await database.sql(
      `select s.tenant_id as "tenantId", s.id as "webhookId", s.url, f.since, f.count, count(*) over () as total
       from (select webhook_id, count(*) as count, min(created_at) as since from ${counted} newest group by 1) f
       join multitenancy.webhook_subscriptions s on s.id = f.webhook_id
       where s.deleted_at is null and s.listening_until is null and ($1::text is null or s.tenant_id = $1)
       order by f.count desc, s.id limit $2`,
      [tenantId ?? null, limit, floorOfUuidsAt(clock.now().getTime() - DAY_MS)],
    )
    return rowsOf(rows, (row) => ({ ...toTroubled(row), count: row.count }))
  }

  /** Subscriptions with deliveries that have been due for five minutes, the longest first. */
  async overdueDeliveries({
    tenantId,
    limit = DEFAULT_LIMIT,
  }: AttentionOptions = {}): Promise<AttentionRows<CountedSubscription>> {
    const { overdue } = await this.#inspection.overdue()
    const found = tenantId ? overdue.filter((one) => one.tenantId === tenantId) : overdue
    return {
      total: found.length,
      rows: found.slice(0, limit).map((one) => ({ ...toTroubled(one), count: one.count })),
    }
  }
}

const rowsOf = <Row>(rows: readonly any[], toRow: (row: any) => Row): AttentionRows<Row> => ({
  total: rows[0]?.total ?? 0,
  rows: rows.map(toRow),
})

const toTroubled = ({ tenantId, webhookId, url, since }: Omit<TroubledSubscription, 'receiver'> & { url: string }) => ({
  tenantId,
  webhookId,
  receiver: new URL(url).origin,
  since,
})
