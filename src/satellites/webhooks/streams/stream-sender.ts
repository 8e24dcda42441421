/**
 * Sends streams to subscriptions of the host that name them. A pattern such as `*` does not match a stream.
 *
 *   next batch ──► delivery ──delivered──► its position is stored, next batch
 *       ▲              └─────failed──────► the same position again
 *       └── stored position of the subscription
 *
 * - A subscription has one delivery in progress, so batches arrive in order. After a crash, the next run continues from the row.
 * - Several processes may run this: the row of the subscription is locked for each step.
 */
import type { Kernel } from '../../../kernel/kernel.ts'
import type { DeliveryState } from '../model/delivery.ts'
import type { Deliveries } from '../queue/deliveries.ts'
import type { Dispatch } from '../queue/dispatch.ts'

/** Of the entries of a batch. Half of the largest body: the rest is for the members around them. */
const MAX_BYTES = 512 * 1024
/** Subscriptions of the host that receive a stream, except those that an operator has disabled. $1: names of streams. */
const STREAMING = `
  select w.id as "webhookId", w.url, name as stream, w.enabled, coalesce(s.position, 0) as position
  from multitenancy.webhook_subscriptions w join unnest($1::text[]) name on name = any(w.events)
  left join multitenancy.webhook_streams s on s.webhook_id = w.id and s.stream = name
  where w.tenant_id is null and w.deleted_at is null and (w.enabled or w.disabled_reason is not null) order by 1, 3`

/** A run ends before the next minute; the next run continues. */
const RUN_MS = 50_000

/** A subscription with records that its receiver has not accepted. */
export interface StreamLag {
  readonly webhookId: string
  readonly url: string
  readonly stream: string
  /** Time of the first of these records. */
  readonly since: Date
  /** Age of this record. */
  readonly seconds: number
}

interface Streaming {
  readonly webhookId: string
  readonly url: string
  readonly stream: string
  readonly enabled: boolean
  /** All records up to it are accepted. */
  readonly position: number
}

interface Row {
  readonly position: number
  readonly deliveryId: string | null
  readonly deliveryPosition: number | null
}

export class StreamSender {
  readonly #kernel: Kernel
  readonly #dispatch: Dispatch
  readonly #deliveries: Deliveries

  constructor(kernel: Kernel, dispatch: Dispatch, deliveries: Deliveries) {
    this.#kernel = kernel
    this.#dispatch = dispatch
    this.#deliveries = deliveries
  }

  /** Sends until no batch is left, a delivery fails, or a minute has almost passed. */
  async send(signal: AbortSignal): Promise<void> {
    const subscriptions = (await this.#subscriptions()).filter(({ enabled }) => enabled)
    const until = AbortSignal.any([signal, AbortSignal.timeout(RUN_MS)])
    await Promise.all(subscriptions.map(({ webhookId, stream }) => this.#sendAll(webhookId, stream, until)))
  }

  /** Subscriptions that lag behind their streams. Includes subscriptions that were disabled after failures. */
  async lags(): Promise<readonly StreamLag[]> {
    const now = this.#kernel.clock.now().getTime()
    const lags: StreamLag[] = []
    for (const { webhookId, url, stream, position } of await this.#subscriptions()) {
      const since = await this.#kernel.streams.get(stream)?.oldestAfter(position)
      if (since) lags.push({ webhookId, url, stream, since, seconds: (now - since.getTime()) / 1_000 })
    }
    return lags
  }

  /** Seconds since the first record of each stream that a receiver has not accepted; 0 if no subscription lags. */
  async lagSeconds(): Promise<ReadonlyMap<string, number>> {
    const oldest = new Map(this.#kernel.streams.names.map((name) => [name, 0]))
    for (const { stream, seconds } of await this.lags()) {
      oldest.set(stream, Math.max(oldest.get(stream) ?? 0, seconds))
    }
    return oldest
  }

  async #sendAll(webhookId: string, stream: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const deliveryId = await this.advance(webhookId, stream)
      if (deliveryId === undefined) return
      const delivery = await this.#deliveries.short(webhookId, deliveryId)
      if (delivery.state === 'retry_scheduled') return
      if ((await this.#deliveries.settled(delivery, signal)).state !== 'delivered') return
    }
  }

  /** Stores the position of an accepted delivery and dispatches the next batch. Returns the delivery in progress, if there is one. */
  advance(webhookId: string, stream: string): Promise<string | undefined> {
    const { database, streams } = this.#kernel
    return database.transaction(async () => {
      const { position, deliveryId, deliveryPosition } = await this.#lock(webhookId, stream)
      const state = deliveryId === null ? undefined : await this.#stateOf(deliveryId)
      if (deliveryId !== null && state !== undefined && state !== 'delivered' && state !== 'failed') return deliveryId
      const accepted = state === 'delivered' ? (deliveryPosition ?? position) : position
      const batch = await streams.get(stream)?.after(accepted, MAX_BYTES)
      const next = batch && (await this.#dispatch.toOne(null, webhookId, stream, batch.body))
      if (next !== undefined || deliveryId !== null) {
        await database.sql(
          `update multitenancy.webhook_streams set position = $3, delivery_id = $4, delivery_position = $5
           where webhook_id = $1 and stream = $2`,
          [webhookId, stream, accepted, next ?? null, next === undefined ? null : batch?.position],
        )
      }
      return next
    })
  }

  async #subscriptions(): Promise<readonly Streaming[]> {
    const { database, streams } = this.#kernel
    return (await database.sql(STREAMING, [streams.names])).rows
  }

  async #lock(webhookId: string, stream: string): Promise<Row> {
    const { database } = this.#kernel
    const key = [webhookId, stream]
    await database.sql(
      'insert into multitenancy.webhook_streams (webhook_id, stream) values ($1, $2) on conflict do nothing',
      key,
    )
    const { rows } = await database.sql(
      `select position, delivery_id as "deliveryId", delivery_position as "deliveryPosition"
       from multitenancy.webhook_streams where webhook_id = $1 and stream = $2 for update`,
      key,
    )
    return rows[0]
  }

  /** Read after the lock, so that it sees the delivery of a concurrent process. Undefined: past its retention. */
  async #stateOf(deliveryId: string): Promise<DeliveryState | undefined> {
    const { rows } = await this.#kernel.database.sql(
      'select state from multitenancy.webhook_deliveries where id = $1',
      [deliveryId],
    )
    return rows[0]?.state
  }
}
