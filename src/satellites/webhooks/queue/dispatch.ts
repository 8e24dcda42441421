/**
 * Dispatches events: writes one message, and a delivery for each matching subscription. In a transaction the rows belong to it.
 * Otherwise concurrent dispatches share a statement, which also claims deliveries for the worker of this process.
 *
 * The body is serialised once. Every attempt sends these bytes.
 */
import { z } from 'zod'
import { Batcher } from '../../../kernel/base/batcher.ts'
import { invalid } from '../../../kernel/base/errors.ts'
import { uuidAt } from '../../../kernel/base/ids.ts'
import { parsed, toJson } from '../../../kernel/base/validate.ts'
import type { Database } from '../../../kernel/database/database.ts'
import { undeclared } from '../../../kernel/declarations/declared-names.ts'
import { dottedName } from '../../../kernel/events/dotted-names.ts'
import type { EventType } from '../../../kernel/events/events.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { joinedOutbox } from '../../../kernel/outbox/joining.ts'
import type { OutboxEntry } from '../../../kernel/outbox/kinds.ts'
import { TenantState, tenantNotFound } from '../../../tenants/tenant/errors.ts'
import { TenantDeleted } from '../../../tenants/tenant/events.ts'
import { TENANT_ID } from '../../../tenants/tenant/tenant.ts'
import { shiftMs } from '../model/database-time.ts'
import { EventName, patternsFor } from '../model/event-names.ts'
import type { DeclaredEvents } from '../model/options.ts'
import { type Claimed, type Offer, TIMEOUT_MS } from './queue.ts'

const MAX_BODY_BYTES = 1024 * 1024
const MAX_BATCH_ITEMS = 500
const MAX_BATCH_BYTES = 8 * MAX_BODY_BYTES

/** A JSON object with members of any name, including `__proto__`. */
export const Payload = z
  .unknown()
  .refine((value) => typeof value === 'object' && value !== null && !Array.isArray(value), 'must be a JSON object')
  .meta({ type: 'object', additionalProperties: true }) as z.ZodType<
  Readonly<Record<string, unknown>>,
  Readonly<Record<string, unknown>>
>

export const DispatchRequest = z.strictObject({
  event: EventName,
  payload: Payload.describe('Body of the requests, sent unchanged'),
})

/** Kind of the outbox entry of a dispatch in a tenant's transaction. */
export const DISPATCH = 'webhooks.dispatch'

interface Message {
  readonly id: string
  readonly createdMs: number
  readonly tenantId: string | null
  readonly event: string
  readonly body: string
  /** `system`: an event of Tenantry, sent to the host in any state of the tenant. `deletion`: the last event sent to the tenant. */
  readonly kind: 'request' | 'system' | 'deletion'
  /** Id of the only subscription, regardless of its patterns; null: all matching subscriptions. */
  readonly onlyFor: string | null
  /** The trace of the caller. */
  readonly traceparent: string | null
}

interface Dispatched {
  /** `none`: the tenant does not exist. `deleted`: it is deleted. Null: the event was dispatched. */
  readonly rejected: string | null
  readonly deliveries: readonly string[]
}

/** The worker of this process, which may claim deliveries in the statement of the dispatch. */
export interface Sender {
  wake(): void
  /** Undefined: the worker cannot claim now. */
  offer(): Promise<Offer | undefined>
  /** Call it once for each offer. */
  take(offer: Offer, deliveries: readonly Claimed[]): void
}

export class Dispatch {
  readonly #kernel: Kernel
  /** Separate connections, for dispatches outside of a transaction. */
  readonly #own: Database
  readonly #sender: Sender
  readonly #declared: DeclaredEvents | undefined
  readonly #batcher: Batcher<Message, Dispatched>

  constructor(kernel: Kernel, own: Database, sender: Sender, declared?: DeclaredEvents) {
    this.#kernel = kernel
    this.#own = own
    this.#sender = sender
    this.#declared = declared
    this.#batcher = new Batcher<Message, Dispatched>((messages) => this.#insertAndSend(messages), {
      maxItems: MAX_BATCH_ITEMS,
      weight: { of: ({ body }) => body.length, maxWeight: MAX_BATCH_BYTES },
    })
  }

  /** Returns the ids of the deliveries. @throws `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` for a deleted tenant, `E_INVALID_REQUEST` */
  async dispatch(tenantId: string, event: string, payload: unknown): Promise<string[]> {
    if (typeof tenantId !== 'string' || !TENANT_ID.test(tenantId)) throw tenantNotFound(String(tenantId))
    const name = parsed(EventName, event, 'event')
    this.#assertNotReserved(name)
    const body = this.#bodyOf(name, payload)
    const outbox = joinedOutbox(tenantId)
    if (outbox) {
      await outbox.post(DISPATCH, { event: name, payload: body })
      return []
    }
    const message = this.#message(tenantId, name, body)
    return [...(await this.#sendOf(tenantId, message))]
  }

  /** Dispatches events of tenants' transactions. Those of a tenant that was deleted since are no longer sent. */
  async posted(entries: readonly OutboxEntry<z.output<typeof DispatchRequest>>[]): Promise<void> {
    const { database } = this.#kernel
    const messages = entries.map(({ tenantId, payload: { event, payload }, postedAt, context }): Message => {
      this.#assertNotReserved(event)
      const createdMs = postedAt.getTime()
      const traceparent = context.traceparent ?? null
      const body = serialise(payload)
      return { id: uuidAt(createdMs), createdMs, tenantId, event, body, kind: 'request', onlyFor: null, traceparent }
    })
    await this.#insert(database, messages, undefined)
    database.afterCommit(() => this.#sender.wake())
  }

  /** Dispatches an event of Tenantry, in the transaction of the change. */
  async bridge(type: EventType, event: Readonly<Record<string, unknown>>): Promise<void> {
    const { tenantId = null } = event as { tenantId?: string | null }
    const kind = type === (TenantDeleted as EventType) ? 'deletion' : 'system'
    await this.#send({ ...this.#message(tenantId, dottedName(type.name), event), kind })
  }

  /** Dispatches to one subscription, regardless of its patterns. Undefined: it is deleted or disabled. @throws `E_TENANT_STATE` */
  async toOne(tenantId: string | null, webhookId: string, event: string, payload: object): Promise<string | undefined> {
    const message = this.#message(tenantId, event, payload as Readonly<Record<string, unknown>>)
    const [deliveryId] = await this.#sendOf(tenantId, { ...message, onlyFor: webhookId })
    return deliveryId
  }

  /** Returns the ids of the deliveries; throws if the tenant does not exist or is deleted. */
  async #sendOf(tenantId: string | null, message: Message): Promise<readonly string[]> {
    const { rejected, deliveries } = await this.#send(message)
    if (tenantId === null) return deliveries
    if (rejected === 'none') throw tenantNotFound(tenantId)
    if (rejected === 'deleted') {
      throw TenantState(`Tenant "${tenantId}" is deleted. Its events are no longer sent.`, {
        extras: { from: rejected },
      })
    }
    return deliveries
  }

  /** Events of other processes are not checked again: they may have other declarations. */
  #bodyOf(event: string, payload: unknown): Readonly<Record<string, unknown>> {
    if (!this.#declared) return parsed(Payload, payload, 'payload')
    const schema = this.#declared.get(event)
    if (!schema) throw undeclared(this.#declared.keys(), event, 'event')
    return parsed(Payload, parsed(schema, payload, 'payload'), 'payload')
  }

  #assertNotReserved(event: string): void {
    if (this.#kernel.streams.get(event))
      throw invalid([{ path: 'event', message: `is reserved: "${event}" is a stream` }])
  }

  #message(tenantId: string | null, event: string, payload: Readonly<Record<string, unknown>>): Message {
    const body = serialise(payload)
    const createdMs = this.#kernel.clock.now().getTime()
    const traceparent = this.#kernel.tracing.traceparent() ?? null
    return { id: uuidAt(createdMs), createdMs, tenantId, event, body, kind: 'request', onlyFor: null, traceparent }
  }

  async #send(message: Message): Promise<Dispatched> {
    const { database } = this.#kernel
    if (!database.inTransaction) return this.#batcher.add(message)
    const { dispatched } = await this.#insert(database, [message], undefined)
    database.afterCommit(() => this.#sender.wake())
    return dispatched[0] as Dispatched
  }

  async #insertAndSend(messages: readonly Message[]): Promise<Dispatched[]> {
    const offer = await this.#sender.offer()
    const { dispatched, taken, needsWakeup } = await this.#insert(this.#own, messages, offer).catch((error) => {
      if (offer) this.#sender.take(offer, [])
      throw error
    })
    if (offer) this.#sender.take(offer, taken)
    if (needsWakeup) this.#sender.wake()
    return dispatched
  }

  async #insert(database: Database, messages: readonly Message[], offer: Offer | undefined) {
    const { clock } = this.#kernel
    const { rows } = await database.sql(
      {
        name: 'dispatch-webhooks',
        timeoutMs: TIMEOUT_MS,
        text: `select place, rejected, id, is_claimed, needs_wakeup, webhook_id, partition_key, url, secret, previous_secret, previous_until, generation, envelope
          from multitenancy.dispatch_webhooks(
          $1, $2::uuid[], $3, $4, $5, $6, $7, $8, $9::uuid[], $10, $11, $12, $13, $14, $15, $16)`,
      },
      [
        shiftMs(clock),
        messages.map(({ id }) => id),
        messages.map(({ tenantId }) => tenantId),
        messages.map(({ event }) => event),
        messages.map(({ event }) => patternsFor(event).join(' ')),
        messages.map(({ body }) => body),
        messages.map(({ createdMs }) => createdMs),
        messages.map(({ kind }) => kind),
        messages.map(({ onlyFor }) => onlyFor),
        offer?.claim ?? null,
        offer?.wanted ?? 0,
        offer?.leaseMs ?? 0,
        offer?.perSubscription ?? 0,
        offer?.perTenant ?? 0,
        offer?.slowWebhooks ?? [],
        messages.map(({ traceparent }) => traceparent),
      ],
    )
    const dispatched = messages.map(() => ({ rejected: null as string | null, deliveries: [] as string[] }))
    const taken: Claimed[] = []
    let needsWakeup = false
    for (const row of rows) {
      const of = dispatched[row.place - 1]
      const message = messages[row.place - 1]
      if (!of || !message) continue
      if (row.id === null) {
        of.rejected = row.rejected
        continue
      }
      of.deliveries.push(row.id)
      if (row.is_claimed && offer) taken.push(takenOf(row, message, offer.claim))
      else needsWakeup ||= row.needs_wakeup
    }
    return { dispatched, taken, needsWakeup }
  }
}

const takenOf = (row: any, { tenantId, event, body, createdMs, traceparent }: Message, claim: string): Claimed => ({
  id: row.id,
  claim,
  webhookId: row.webhook_id,
  tenantId,
  partitionKey: row.partition_key,
  event,
  attemptCount: 0,
  budgetStart: 0,
  createdAt: new Date(createdMs),
  body,
  traceparent,
  isFailing: false,
  url: row.url,
  secret: row.secret,
  previousSecret: row.previous_secret,
  previousUntil: row.previous_until,
  generation: row.generation,
  envelope: row.envelope,
})

function serialise(payload: object): string {
  const body = toJson(payload, 'payload')
  // `toJSON` may return any value.
  if (!body?.startsWith('{')) throw invalid([{ path: 'payload', message: 'must be a JSON object after serialisation' }])
  if (Buffer.byteLength(body) > MAX_BODY_BYTES)
    throw invalid([{ path: 'payload', message: 'must not exceed 1 MiB as JSON' }])
  return body
}
