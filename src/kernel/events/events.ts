/**
 * Declares, publishes and receives events. A *within* listener runs in the transaction of the change and can reject it by throwing. An
 * *after* listener runs after the commit, outside of the transaction, and can be lost in a crash. Outside of a transaction, `publish`
 * opens one if a within listener exists.
 */
import { z } from 'zod'
import type { Clock } from '../base/clock.ts'
import { currentContext } from '../base/context.ts'
import { uuidv7 } from '../base/ids.ts'
import type { Database } from '../database/database.ts'

/** Members of every event, in addition to its own. */
const envelope = z.object({
  id: z.uuid().describe('UUIDv7 of this occurrence'),
  occurredAt: z.iso.datetime(),
  requestId: z.string().nullable(),
})

export interface EventType<
  Name extends string = string,
  Payload extends z.ZodObject = z.ZodObject,
  Internal extends boolean = boolean,
> {
  readonly name: Name
  readonly summary: string
  /** The whole payload, envelope included. */
  readonly schema: z.ZodObject
  readonly own: Payload
  /** Whether it is internal: events of every request and of deliveries are not sent to other systems. */
  readonly isInternal: Internal
}

export type EventOf<Type extends EventType> = z.output<Type['own']> & z.output<typeof envelope>

type Awaitable<T> = T | Promise<T>

export type When = 'within' | 'after'

/** A listener of a satellite; `service` is that of the satellite. */
export interface Listener<Service = any> {
  readonly type: EventType
  readonly when: When
  readonly handle: (service: Service, event: any) => Awaitable<void>
  /** Whether it only observes: the event counts as one without listeners. */
  readonly isPassive?: boolean
}

/** What listens to every event there is, but to those that are internal. */
export interface WideListener<Service = any> {
  readonly when: When
  readonly handleAny: (service: Service, type: EventType, event: any) => Awaitable<void>
}

export function event<Name extends string, Payload extends z.ZodObject, Internal extends boolean = false>(
  name: Name,
  summary: string,
  own: Payload,
  { isInternal = false as Internal }: { isInternal?: Internal } = {},
): EventType<Name, Payload, Internal> {
  return { name, summary, own, schema: envelope.extend(own.shape), isInternal }
}

export const on = <Service, Type extends EventType>(
  type: Type,
  when: When,
  handle: (service: Service, event: EventOf<Type>) => Awaitable<void>,
  { isPassive = false }: { isPassive?: boolean } = {},
): Listener<Service> => ({ type, when, handle, isPassive })

export const onAny = <Service>(
  when: When,
  handleAny: (service: Service, type: EventType, event: Record<string, unknown>) => Awaitable<void>,
): WideListener<Service> => ({ when, handleAny })

/** The event whose listener threw an error, for the failure that a caller reads. */
const rejections = new WeakMap<Error, string>()

/** @returns the name of the event whose listener within the transaction threw this error */
export const rejectedEvent = (error: unknown): string | undefined =>
  error instanceof Error ? rejections.get(error) : undefined

async function named({ name }: EventType, handle: () => Awaitable<void>): Promise<void> {
  try {
    await handle()
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown })
    if (!rejections.has(error)) rejections.set(error, name) // the innermost event
    throw error
  }
}

interface Handler {
  readonly handle: (event: any) => Awaitable<void>
  readonly isPassive: boolean
}

export class Events {
  readonly #database: Database
  readonly #clock: Clock
  readonly #handlers: Record<When, Map<string, Handler[]>> = { within: new Map(), after: new Map() }
  /** Those that this tenancy declares. */
  readonly types: readonly EventType[]

  constructor(database: Database, clock: Clock, types: readonly EventType[] = []) {
    this.#database = database
    this.#clock = clock
    this.types = types
  }

  /** Returns a function that ends the subscription. */
  subscribe<Type extends EventType>(
    type: Type,
    when: When,
    handle: (event: EventOf<Type>) => Awaitable<void>,
    isPassive = false,
  ): () => void {
    const handlers = this.#handlers[when]
    const handler: Handler = { handle, isPassive }
    handlers.set(type.name, [...(handlers.get(type.name) ?? []), handler])
    return () => {
      handlers.set(
        type.name,
        (handlers.get(type.name) ?? []).filter((other) => other !== handler),
      )
    }
  }

  /** Whether a listener exists: a frequent event need not be published without one. */
  hasHandlers(type: EventType): boolean {
    return this.#hasHandlers(type, 'after') || this.hasHandlersWithin(type)
  }

  /** Whether a within listener exists that is not passive. */
  hasHandlersWithin(type: EventType): boolean {
    return this.#hasHandlers(type, 'within')
  }

  #hasHandlers({ name }: EventType, when: When): boolean {
    return this.#handlers[when].get(name)?.some(({ isPassive }) => !isPassive) ?? false
  }

  /** Publishes independently of the transaction in progress. */
  announce<Type extends EventType>(type: Type, payload: z.input<Type['own']>): Promise<EventOf<Type>> {
    return this.#database.outside(() => this.publish(type, payload))
  }

  /** @param occurredAt by the clock of another server, and not in the id; default: now */
  async publish<Type extends EventType>(
    type: Type,
    payload: z.input<Type['own']>,
    occurredAt?: Date,
  ): Promise<EventOf<Type>> {
    const now = this.#clock.now()
    const published = type.schema.parse({
      ...payload,
      id: uuidv7(now.getTime()),
      occurredAt: (occurredAt ?? now).toISOString(),
      requestId: currentContext().requestId,
    }) as EventOf<Type>
    const within = this.#handlers.within.get(type.name) ?? []
    const announce = async () => {
      for (const { handle } of within) await named(type, () => handle(published))
      for (const { handle } of this.#handlers.after.get(type.name) ?? [])
        this.#database.afterCommit(() => handle(published))
    }
    if (within.length > 0 && !this.#database.inTransaction) await this.#database.transaction(announce)
    else await announce()
    return published
  }
}
