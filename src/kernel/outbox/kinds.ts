/**
 * The kinds of outbox entries that the parts of a tenancy declare, each with the function that applies its entries in
 * the backoffice.
 *
 * @example
 *   defineSatellite({ ..., outbox: [outboxEntry('orders.count', z.object({ orders: z.int() }), eachEntry(
 *     (orders: Orders, { tenantId, payload }) => orders.count(tenantId, payload.orders)))] })
 */
import type { z } from 'zod'
import { type Context, enterContext } from '../base/context.ts'
import { parsed } from '../base/validate.ts'

export interface OutboxEntry<Payload = any> {
  /** UUID; each id is applied once. */
  readonly id: string
  readonly tenantId: string
  readonly payload: Payload
  /** Time of the post, by the clock of the tenant's server. */
  readonly postedAt: Date
  /** Actor and request of the post. */
  readonly context: Context
}

type Apply<Service, Payload> = (service: Service, entries: readonly OutboxEntry<Payload>[]) => Promise<void>

export interface OutboxKind<Service = any> {
  /**
   * Dotted name, `webhooks.dispatch`. It also names the form of the payload: a new form has a new name, such as
   * `webhooks.dispatch@2`, because processes of both releases relay. Entries of a kind that a process does not know
   * stay for another one. Declare the former kind until none of its entries waits.
   */
  readonly name: string
  readonly schema: z.ZodType
  /**
   * Applies entries in a transaction of the backoffice. If it throws, the entries are applied one by one, and an entry
   * that fails permanently is stored with its error.
   */
  readonly apply: Apply<Service, any>
}

export const outboxEntry = <Service, Schema extends z.ZodType>(
  name: string,
  schema: Schema,
  apply: Apply<Service, z.output<Schema>>,
): OutboxKind<Service> => ({ name, schema, apply })

/** Applies entries one by one, each in its context. */
export const eachEntry =
  <Service, Payload>(
    apply: (service: Service, entry: OutboxEntry<Payload>) => Promise<unknown>,
  ): Apply<Service, Payload> =>
  async (service, entries) => {
    for (const entry of entries) await enterContext(entry.context, () => apply(service, entry))
  }

/** The kinds of a tenancy with their services. */
export class OutboxKinds {
  readonly #kinds = new Map<string, { readonly kind: OutboxKind; readonly service: unknown }>()

  register(kind: OutboxKind, service: unknown): void {
    if (this.#kinds.has(kind.name)) throw new Error(`Two parts declare the outbox entry "${kind.name}".`)
    this.#kinds.set(kind.name, { kind, service })
  }

  get names(): string[] {
    return [...this.#kinds.keys()]
  }

  /** @param entries of one kind, with payloads as they were posted */
  async apply(name: string, entries: readonly OutboxEntry[]): Promise<void> {
    const found = this.#kinds.get(name)
    if (!found) throw new Error(`No part of this process declares the outbox entry "${name}".`)
    const { kind, service } = found
    await kind.apply(
      service,
      entries.map((entry) => ({ ...entry, payload: parsed(kind.schema, entry.payload, 'payload') })),
    )
  }
}
