/**
 * Lists, shows and replays deliveries. A replay is one conditional statement: it restarts a settled delivery with a new budget, starts
 * a scheduled retry immediately, and does not change a delivery in progress.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { z } from 'zod'
import type { PageOf } from '../../../kernel/api/page.ts'
import { floorOfUuidsAt, isUuid } from '../../../kernel/base/ids.ts'
import { parsed } from '../../../kernel/base/validate.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { shiftMs } from '../model/database-time.ts'
import type { Attempt, Delivery, DeliveryDetail } from '../model/delivery.ts'
import { DeliveryNotFound, WebhookDisabled } from '../model/errors.ts'
import type { Options } from '../model/options.ts'
import type { DeliveryFilter } from '../model/queries.ts'
import { ReplayWindow } from '../model/replay-window.ts'
import type { AttemptRow, DeliveryRow, SubscriptionRow, WebhookTables } from '../model/tables.ts'
import { CHANNEL } from '../sql/functions.ts'
import { actionOf, type Owner, type Subscriptions } from '../subscriptions/subscriptions.ts'
import { type DeliveryContext, explain } from './explanation.ts'

const POLL_MS = 200
/** Maximum of deliveries that one statement replays. */
const MAX_REPLAYED = 5_000

export class Deliveries {
  readonly #kernel: Kernel
  readonly #subscriptions: Subscriptions
  readonly #options: Options
  readonly #wake: () => void

  /** @param wake called after the commit of a replay */
  constructor(kernel: Kernel, subscriptions: Subscriptions, options: Options, wake: () => void) {
    this.#kernel = kernel
    this.#subscriptions = subscriptions
    this.#options = options
    this.#wake = wake
  }

  /** Newest first. */
  async list(owner: Owner, webhookId: string, filter: DeliveryFilter): Promise<PageOf<Delivery>> {
    const { cursors } = this.#kernel
    await this.#subscriptions.row(owner, webhookId)
    const { state, event, from, to, ...page } = filter
    let query = this.#of(webhookId)
    if (state) query = query.where('state', '=', state)
    if (event) query = query.where('event', '=', event)
    if (from) query = query.where('id', '>=', floorOfUuidsAt(from.getTime()))
    if (to) query = query.where('id', '<', floorOfUuidsAt(to.getTime()))
    const filters = [webhookId, state, event, from, to]
    const order = { columns: ['id'], direction: 'desc' } as const
    return cursors.keysetPage(query, { name: 'deliveries', filters, order, item: toDelivery }, page)
  }

  async short(webhookId: string, deliveryId: string): Promise<Delivery> {
    return toDelivery(await this.#row(webhookId, deliveryId))
  }

  /** Returns the body, the attempts and an explanation of the state. */
  async get(owner: Owner, webhookId: string, deliveryId: string): Promise<DeliveryDetail> {
    const subscription = await this.#subscriptions.row(owner, webhookId)
    const row = await this.#row(webhookId, deliveryId)
    const { database, clock } = this.#kernel
    const [message, attempts, inFlight] = await Promise.all([
      database
        .query<WebhookTables>()
        .selectFrom('webhookMessages')
        .select('body')
        .where('id', '=', row.messageId)
        .executeTakeFirst(),
      database
        .query<WebhookTables>()
        .selectFrom('webhookAttempts')
        .selectAll()
        .where('deliveryId', '=', deliveryId)
        .orderBy('number')
        .execute(),
      this.#inFlight(row),
    ])
    const now = new Date(Date.now() + shiftMs(clock))
    return {
      ...toDelivery(row),
      payload: message ? JSON.parse(message.body) : null,
      explanation: explain(row, subscription, { ...this.#options, now, inFlight }),
      attempts: attempts.map(toAttempt),
    }
  }

  /** @throws `E_WEBHOOK_NOT_FOUND`, `E_DELIVERY_NOT_FOUND`, `E_WEBHOOK_DISABLED` */
  async replay(owner: Owner, webhookId: string, deliveryId: string): Promise<Delivery> {
    const { database } = this.#kernel
    const subscription = this.#assertEnabled(await this.#subscriptions.row(owner, webhookId))
    await this.#row(webhookId, deliveryId)
    return database.transaction(async () => {
      const { count } = await this.#restart(
        `id = $2 and webhook_id = $3 and (state in ('delivered', 'failed') or (state = 'retry_scheduled' and not is_ready))`,
        [deliveryId, webhookId],
      )
      const row = await this.#row(webhookId, deliveryId)
      if (count > 0) await this.#record('webhookDeliveries.replay', subscription, { deliveryId, event: row.event })
      return toDelivery(row)
    })
  }

  /**
   * Replays failed deliveries that were dispatched in the window; with `dryRun` counts them. There may be very many, so each
   * transaction replays a part and records it in the audit log.
   */
  async replayFailed(
    owner: Owner,
    webhookId: string,
    request: z.input<typeof ReplayWindow> = {},
  ): Promise<{ count: number }> {
    const { from = new Date(0), to, dryRun } = parsed(ReplayWindow, request)
    const { database, clock } = this.#kernel
    const subscription = await this.#subscriptions.row(owner, webhookId)
    const until = to ?? new Date(clock.now().getTime() + 1)
    const bounds = [webhookId, floorOfUuidsAt(from.getTime()), floorOfUuidsAt(until.getTime())]
    if (dryRun) {
      const { rows } = await database.sql(
        `select count(*) as count from multitenancy.webhook_deliveries
         where webhook_id = $1 and state = 'failed' and id >= $2 and id < $3`,
        bounds,
      )
      return { count: rows[0].count }
    }
    this.#assertEnabled(subscription)
    let count = 0
    for (let first = bounds[1]; ; ) {
      const some = await database.transaction(async () => {
        const started = await this.#restart(
          `state = 'failed' and id in (select id from multitenancy.webhook_deliveries
             where webhook_id = $2 and state = 'failed' and id >= $3 and id < $4
             order by id limit ${MAX_REPLAYED} for update skip locked)`, // another replay has locked the skipped rows
          [webhookId, first, bounds[2]],
        )
        const window = { from: from.toISOString(), to: until.toISOString() }
        if (started.count > 0) {
          await this.#record('webhooks.replayFailed', subscription, { ...window, count: started.count })
        }
        return started
      })
      count += some.count
      if (some.count < MAX_REPLAYED) return { count }
      first = some.last
    }
  }

  /** Waits until the delivery is settled or retried, or `signal` aborts. Returns its current state. */
  async settled(delivery: Delivery, signal: AbortSignal): Promise<Delivery> {
    let row = await this.#row(delivery.webhookId, delivery.id)
    const isTried = () => row.state === 'retry_scheduled' && row.attemptCount > delivery.attemptCount
    while (!signal.aborted && row.state !== 'delivered' && row.state !== 'failed' && !isTried()) {
      await sleep(POLL_MS, undefined, { signal }).catch(() => undefined) // aborted: returns the current state
      row = await this.#row(delivery.webhookId, delivery.id)
    }
    return toDelivery(row)
  }

  async #inFlight({ webhookId, partitionKey }: DeliveryRow): Promise<DeliveryContext['inFlight']> {
    const { database, clock } = this.#kernel
    const { rows } = await database.sql(
      `select coalesce((busy ->> ('webhook ' || $2))::int, 0) as "toSubscription",
         coalesce((busy ->> ('partition ' || $3))::int, 0) as "ofPartition"
       from multitenancy.webhook_deliveries_in_flight(clock_timestamp() + $1 * interval '1 millisecond') busy`,
      [shiftMs(clock), webhookId, partitionKey],
    )
    return rows[0]
  }

  /** Makes matching deliveries ready; settled ones get a new budget. Returns their number and the last id. */
  async #restart(
    where: string,
    values: readonly unknown[],
  ): Promise<{ readonly count: number; readonly last: string }> {
    const { database, clock } = this.#kernel
    const { rows } = await database.sql(
      `with started as (
         update multitenancy.webhook_deliveries set
           state = case when state = 'retry_scheduled' then state else 'pending' end,
           budget_start = case when state = 'retry_scheduled' then budget_start else attempt_count end,
           is_ready = true, due_at = clock_timestamp() + $1 * interval '1 millisecond', delivered_at = null
         where ${where} returning id)
       select count(*) as count, max(id::text) as last from started`,
      [shiftMs(clock), ...values],
    )
    const [{ count, last }] = rows as [any]
    if (count > 0) {
      await database.notify(CHANNEL, '')
      database.afterCommit(this.#wake)
    }
    return { count, last }
  }

  #assertEnabled(subscription: SubscriptionRow): SubscriptionRow {
    if (subscription.enabled) return subscription
    throw WebhookDisabled(`Subscription "${subscription.id}" is disabled. Set enabled to true, then try again.`)
  }

  async #row(webhookId: string, deliveryId: string): Promise<DeliveryRow> {
    const row = isUuid(deliveryId)
      ? await this.#of(webhookId).where('id', '=', deliveryId).executeTakeFirst()
      : undefined
    if (!row) throw DeliveryNotFound(`Delivery "${deliveryId}" not found in the subscription.`)
    return row
  }

  #of(webhookId: string) {
    return this.#kernel.database
      .query<WebhookTables>()
      .selectFrom('webhookDeliveries')
      .selectAll()
      .where('webhookId', '=', webhookId)
  }

  #record(action: string, { id, tenantId }: SubscriptionRow, after: Record<string, unknown>): Promise<void> {
    return recordChange(this.#kernel.events, {
      action: actionOf(tenantId, action),
      tenantId,
      target: `webhook:${id}`,
      after,
    })
  }
}

export const toDelivery = (row: DeliveryRow): Delivery => ({
  id: row.id,
  webhookId: row.webhookId,
  tenantId: row.tenantId,
  event: row.event,
  state: row.state,
  attemptCount: row.attemptCount,
  lastStatus: row.lastStatus,
  nextRetryAt: row.state === 'retry_scheduled' ? (row.dueAt?.toISOString() ?? null) : null,
  createdAt: row.createdAt.toISOString(),
  deliveredAt: row.deliveredAt?.toISOString() ?? null,
})

const toAttempt = ({ deliveryId: _, tenantId: __, startedAt, ...row }: AttemptRow): Attempt => ({
  ...row,
  startedAt: startedAt.toISOString(),
})
