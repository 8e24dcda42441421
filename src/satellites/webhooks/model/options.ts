import { z } from 'zod'
import { type HostSchema, toSchema } from '../../../kernel/declarations/host-schema.ts'
import { EventName } from './event-names.ts'

/** Schemas of the events that a host has declared. */
export type DeclaredEvents = ReadonlyMap<string, z.ZodType>

export const Options = z.strictObject({
  /** Schemas of the host's events by name. */
  events: z.record(EventName, z.custom<HostSchema>()).optional(),
  /** Maximum of attempts of a delivery, including the first; default 5. */
  maxAttempts: z.int().min(1).max(20).default(5),
  /** Timeout of one attempt in milliseconds, from name resolution to the end of the response; default 10,000. */
  timeoutMs: z.int().min(100).max(60_000).default(10_000),
  /** Minimum retention of deliveries in days; default 30. */
  retentionDays: z.int().min(1).max(3_650).default(30),
  /** Dispatches Tenantry's events under their dotted names; default true. */
  bridge: z.boolean().default(true),
  /** Maximum of concurrent requests of one process; default 128. */
  concurrency: z.int().min(1).max(10_000).default(128),
  /** Maximum of claimed deliveries of one process; default eight times `concurrency`. A dispatch beyond it is written twice. */
  claim: z.int().min(1).max(10_000).optional(),
  /** Maximum of deliveries in flight to one subscription, over all processes; default 16. */
  perSubscription: z.int().min(1).max(10_000).default(16),
  /** Maximum of deliveries in flight of one tenant, over all processes; default a quarter of `concurrency`. */
  perTenant: z.int().min(1).max(10_000).optional(),
})

/** Schemas of the payloads of a host's events, by name. */
export type EventSchemas = Readonly<Record<string, HostSchema>>

export interface WebhooksOptions<Events extends EventSchemas = EventSchemas>
  extends Omit<z.input<typeof Options>, 'events'> {
  /**
   * The events of the host: Zod schemas of the payloads, in a configuration file JSON Schemas. If given, `dispatch` rejects other events and
   * invalid payloads, and the compiler knows names and payloads. The sent payload is the output of the schema.
   */
  readonly events?: Events
}

export interface Options extends Omit<z.output<typeof Options>, 'events'> {
  /** Schemas by name of the event. Absent: events of any name, with any object as payload. */
  readonly events?: DeclaredEvents | undefined
  readonly claim: number
  readonly perTenant: number
}

export const withDefaults = ({ events, ...options }: z.output<typeof Options>): Options => ({
  ...options,
  events: events && declaredEvents(events),
  claim: options.claim ?? options.concurrency * 8,
  perTenant: options.perTenant ?? Math.max(1, Math.ceil(options.concurrency / 4)),
})

/** @throws E_INVALID_REQUEST */
const declaredEvents = (events: EventSchemas): DeclaredEvents =>
  new Map(Object.entries(events).map(([name, schema]) => [name, toSchema(schema, `webhooks.events.${name}`)]))
