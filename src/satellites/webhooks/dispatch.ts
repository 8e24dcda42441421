/**
 * Dispatching: one message, and one delivery for each subscription that it fits, as rows of the transaction in progress, which
 * wake the workers when it commits. Outside of a transaction, what is dispatched in the same moment goes as one.
 *
 * The body is serialised here, once; these bytes are what is sent, at every attempt.
 */
import { z } from 'zod'
import { invalid } from '../../kernel/errors.ts'
import type { EventType } from '../../kernel/events.ts'
import { Gathering } from '../../kernel/gathering.ts'
import { uuidAt } from '../../kernel/ids.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { parsed } from '../../kernel/parsed.ts'
import { TenantNotFound, TenantState } from '../../tenants/errors.ts'
import { TenantDeleted } from '../../tenants/events.ts'
import { shiftMs } from './database-time.ts'
import { dottedName, EventName, patternsFor } from './event-names.ts'

const MAX_BODY_BYTES = 1024 * 1024
const MOST_AT_ONCE = 500
const MOST_BYTES_AT_ONCE = 8 * MAX_BODY_BYTES

/** A JSON object. Its members may be named anything, `__proto__` too. */
export const Payload = z
  .unknown()
  .refine((value) => typeof value === 'object' && value !== null && !Array.isArray(value), 'not a JSON object')
  .meta({ type: 'object', additionalProperties: true }) as z.ZodType<
  Readonly<Record<string, unknown>>,
  Readonly<Record<string, unknown>>
>

export const DispatchRequest = z.strictObject({
  event: EventName,
  payload: Payload.describe('What is sent, as it is'),
})

interface Message {
  readonly id: string
  readonly createdMs: number
  readonly tenantId: string | null
  readonly event: string
  readonly body: string
  /** Of a tenant that is deleted by now: the word that it is. */
  readonly isFarewell: boolean
  /** The one subscription that it is for, whatever that names. */
  readonly onlyFor: string | null
}

interface Dispatched {
  readonly tenantStatus: string | null
  readonly deliveries: readonly string[]
}

export class Dispatch {
  readonly #kernel: Kernel
  readonly #wake: () => void
  readonly #together: Gathering<Message, Dispatched>

  /** @param wake is called when there is something to send */
  constructor(kernel: Kernel, wake: () => void) {
    this.#kernel = kernel
    this.#wake = wake
    this.#together = new Gathering<Message, Dispatched>(
      (messages) => kernel.database.outside(() => this.#insert(messages)),
      { most: MOST_AT_ONCE, weight: { of: ({ body }) => body.length, most: MOST_BYTES_AT_ONCE } },
    )
  }

  /** Answers the ids of its deliveries. `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` when the tenant is deleted, or a 400. */
  async dispatch(tenantId: string, event: string, payload: Readonly<Record<string, unknown>>): Promise<string[]> {
    const message = this.#message(tenantId, parsed(EventName, event, 'event'), parsed(Payload, payload, 'payload'))
    const { tenantStatus, deliveries } = await this.#send(message)
    if (tenantStatus === null || tenantStatus === 'purged') throw TenantNotFound(`There is no tenant "${tenantId}".`)
    if (tenantStatus === 'deleted') {
      throw TenantState(`The tenant "${tenantId}" is deleted; nothing more is sent of it.`, {
        extras: { from: tenantStatus },
      })
    }
    return [...deliveries]
  }

  /** Of Tenantry's own events those that leave it, in the transaction of what they tell of. */
  async bridge(type: EventType, event: Readonly<Record<string, unknown>>): Promise<void> {
    const { tenantId = null } = event as { tenantId?: string | null }
    const isFarewell = type === (TenantDeleted as EventType)
    await this.#send({ ...this.#message(tenantId, dottedName(type.name), event), isFarewell })
  }

  /** To one subscription alone, whatever it names. Undefined when it is not there, or disabled. */
  async toOne(tenantId: string | null, webhookId: string, event: string, payload: object): Promise<string | undefined> {
    const { deliveries } = await this.#send({
      ...this.#message(tenantId, event, payload as Readonly<Record<string, unknown>>),
      onlyFor: webhookId,
    })
    return deliveries[0]
  }

  #message(tenantId: string | null, event: string, payload: Readonly<Record<string, unknown>>): Message {
    const body = serialised(payload)
    const createdMs = this.#kernel.clock.now().getTime()
    return { id: uuidAt(createdMs), createdMs, tenantId, event, body, isFarewell: false, onlyFor: null }
  }

  async #send(message: Message): Promise<Dispatched> {
    const { database } = this.#kernel
    const sent = database.inTransaction ? (await this.#insert([message]))[0] : await this.#together.add(message)
    return sent ?? { tenantStatus: null, deliveries: [] }
  }

  async #insert(messages: readonly Message[]): Promise<Dispatched[]> {
    const { database, clock } = this.#kernel
    const { rows } = await database.sql(
      {
        name: 'dispatch-webhooks',
        text: `select place, tenant_status, deliveries
          from multitenancy.dispatch_webhooks($1, $2::uuid[], $3, $4, $5, $6, $7, $8, $9::uuid[])`,
      },
      [
        shiftMs(clock),
        messages.map(({ id }) => id),
        messages.map(({ tenantId }) => tenantId),
        messages.map(({ event }) => event),
        messages.map(({ event }) => patternsFor(event).join(' ')),
        messages.map(({ body }) => body),
        messages.map(({ createdMs }) => createdMs),
        messages.map(({ isFarewell }) => isFarewell),
        messages.map(({ onlyFor }) => onlyFor),
      ],
    )
    const dispatched: Dispatched[] = messages.map(() => ({ tenantStatus: null, deliveries: [] }))
    for (const { place, tenant_status: tenantStatus, deliveries } of rows) {
      dispatched[place - 1] = { tenantStatus, deliveries }
    }
    if (dispatched.some(({ deliveries }) => deliveries.length > 0)) database.afterCommit(this.#wake)
    return dispatched
  }
}

function serialised(payload: object): string {
  let body: string
  try {
    body = JSON.stringify(payload)
  } catch {
    throw invalid([{ path: 'payload', message: 'cannot be written as JSON' }])
  }
  if (Buffer.byteLength(body) > MAX_BODY_BYTES) throw invalid([{ path: 'payload', message: 'more than 1 MiB as JSON' }])
  return body
}
