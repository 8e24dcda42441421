/** Lists and shows deliveries: of one subscription, or of all. */
import { sql } from 'kysely'
import { keysetQuery, type PageOf } from '../../../kernel/api/page.ts'
import { isUuid } from '../../../kernel/base/ids.ts'
import { pollUntil } from '../../../kernel/jobs/poll.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { shiftMs } from '../model/database-time.ts'
import type { Attempt, Delivery, DeliveryDetail, DeliveryOfAny } from '../model/delivery.ts'
import { DeliveryNotFound } from '../model/errors.ts'
import type { Options } from '../model/options.ts'
import type { DeliveryFilter, DeliveryFilterOfAll } from '../model/queries.ts'
import { scheduleOf } from '../model/schedule.ts'
import { type AttemptRow, type DeliveryRow, NO_TENANT_KEY, type WebhookTables } from '../model/tables.ts'
import type { Owner, Subscriptions } from '../subscriptions/subscriptions.ts'
import { filtered, lastResponseOf } from './delivery-filter.ts'
import { type DeliveryContext, explain } from './explanation.ts'

const POLL_MS = 200

export class Deliveries {
  readonly #kernel: Kernel
  readonly #subscriptions: Subscriptions
  readonly #options: Options

  constructor(kernel: Kernel, subscriptions: Subscriptions, options: Options) {
    this.#kernel = kernel
    this.#subscriptions = subscriptions
    this.#options = options
  }

  /** Newest first. */
  async list(owner: Owner, webhookId: string, { limit, cursor, ...filter }: DeliveryFilter): Promise<PageOf<Delivery>> {
    const { cursors, database } = this.#kernel
    await this.#subscriptions.row(owner, webhookId)
    const like = filter.sameResponseAs && (await lastResponseOf(database, filter.sameResponseAs, webhookId))
    const query = filtered(this.#of(webhookId), filter, like || undefined)
    const keyset = { name: 'deliveries', filters: [webhookId, ...valuesOf(filter)], order: NEWEST_ID, item: toDelivery }
    return cursors.keysetPage(query, keyset, { limit, cursor })
  }

  /** The same over all subscriptions. Reads the newest matching deliveries of each subscription of a tenant, or of all. */
  async listAll({ limit, cursor, tenantId, ...filter }: DeliveryFilterOfAll): Promise<PageOf<DeliveryOfAny>> {
    const { cursors, database } = this.#kernel
    const like = filter.sameResponseAs && (await lastResponseOf(database, filter.sameResponseAs, null))
    const read = (after: { readonly id?: string }, most: number): Promise<DeliveryRow[]> => {
      const all = filtered(this.#rows(), filter, like || undefined)
      if (!tenantId) return keysetQuery(all, NEWEST_ID, after, most).execute()
      const ofOne = keysetQuery(all.whereRef('webhookId', '=', sql.ref('s.id')), NEWEST_ID, after, most)
      return database.transaction(async () => {
        // The planner does not know how many deliveries each subscription has. It must read them in order.
        await database.sql(`select set_config('enable_bitmapscan', 'off', true)`)
        return database
          .query<WebhookTables>()
          .selectFrom('webhookSubscriptions as s')
          .innerJoinLateral(ofOne.as('d'), (join) => join.onTrue())
          .selectAll('d')
          .where('s.tenantId', '=', tenantId)
          .orderBy('d.id', 'desc')
          .limit(most)
          .execute()
      })
    }
    const filters = [tenantId, ...valuesOf(filter)]
    const keyset = { name: 'allDeliveries', filters, order: NEWEST_ID, item: (row: DeliveryRow) => row }
    const { data, nextCursor } = await cursors.keysetPage<DeliveryRow, DeliveryRow, 'id'>(read, keyset, {
      limit,
      cursor,
    })
    const urls = await this.#urlsOf(data)
    return { data: data.map((row) => toDeliveryOfAny(row, urls)), nextCursor }
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
      schedule: scheduleOf(row, attempts, this.#options.maxAttempts),
    }
  }

  /** Waits until the delivery is settled or retried, or `signal` aborts. Returns its current state. */
  async settled(delivery: Delivery, signal: AbortSignal): Promise<Delivery> {
    const { webhookId, id, attemptCount: before } = delivery
    const isSettled = ({ state, attemptCount }: Pick<Delivery, 'state' | 'attemptCount'>) =>
      state === 'delivered' || state === 'failed' || (state === 'retry_scheduled' && attemptCount > before)
    return toDelivery(await pollUntil(() => this.#row(webhookId, id), isSettled, { signal, pollMs: POLL_MS }))
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

  async #urlsOf(deliveries: readonly DeliveryRow[]): Promise<Map<string, string>> {
    const { rows } = await this.#kernel.database.sql(
      'select id, url from multitenancy.webhook_subscriptions where id = any($1::uuid[])',
      [[...new Set(deliveries.map(({ webhookId }) => webhookId))]],
    )
    return new Map(rows.map(({ id, url }) => [id, url]))
  }

  async #row(webhookId: string, deliveryId: string): Promise<DeliveryRow> {
    const row = isUuid(deliveryId)
      ? await this.#of(webhookId).where('id', '=', deliveryId).executeTakeFirst()
      : undefined
    if (!row) throw DeliveryNotFound(`Delivery "${deliveryId}" not found in the subscription.`)
    return row
  }

  #rows() {
    return this.#kernel.database.query<WebhookTables>().selectFrom('webhookDeliveries').selectAll()
  }

  #of(webhookId: string) {
    return this.#rows().where('webhookId', '=', webhookId)
  }
}

const NEWEST_ID = { columns: ['id'], direction: 'desc' } as const

const valuesOf = ({ state, event, status, sameResponseAs, from, to }: Omit<DeliveryFilter, 'limit'>) => [
  state,
  event,
  status,
  sameResponseAs,
  from,
  to,
]

const toDeliveryOfAny = (row: DeliveryRow, urls: ReadonlyMap<string, string>): DeliveryOfAny => ({
  ...toDelivery(row),
  owner: row.partitionKey === NO_TENANT_KEY ? null : row.partitionKey,
  url: urls.get(row.webhookId) ?? null,
})

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
