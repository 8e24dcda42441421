/** Types of the names, payloads and patterns of events in calls of a host, by its declarations. */
import type { z } from 'zod'
import type { ZodSchema } from '../../kernel/declarations/host-schema.ts'
import type { DottedNameOf } from '../../kernel/events/dotted-names.ts'
import type * as tenantEvents from '../../tenants/tenant/events.ts'
import type { Names } from '../../tenants/tenant/names.ts'
import type { ListenOptions } from './listener.ts'
import type { NAMESPACES, TEST_EVENT } from './model/event-names.ts'
import type { AllDeliveriesQuery, DeliveryQuery } from './model/queries.ts'
import type { NewSubscription, SubscriptionChange } from './model/subscription.ts'

/** The declared schemas of events, and the names of those that Tenantry and satellites publish. */
export type EventNames = Pick<Names, 'event' | 'published'>

/** Name of an event to dispatch: a declared one, or any without declarations. */
export type EventOf<Events extends object> = [keyof Events] extends [never] ? string : keyof Events & string

/** Payload of an event to dispatch. */
export type PayloadOf<Events extends object, Event extends string> = Event extends keyof Events
  ? Events[Event] extends ZodSchema
    ? z.input<Events[Event]>
    : Readonly<Record<string, unknown>>
  : Readonly<Record<string, unknown>>

/** Of tenants, and of satellites. */
export type Published<N extends EventNames> =
  | DottedNameOf<(typeof tenantEvents)[keyof typeof tenantEvents]>
  | N['published']

/** Name of a delivered event: declared by the host, or published by Tenantry or a satellite. */
export type DeliveredOf<N extends EventNames> = EventOf<N['event']> | Published<N> | typeof TEST_EVENT

/** A pattern of a subscription: a known one, or a text that is not known at compile time. */
type PatternOf<N extends EventNames, Pattern extends string> =
  Pattern extends KnownPattern<N>
    ? Pattern
    : {} extends Record<Pattern, unknown>
      ? Pattern
      : Pattern extends Checked<N>
        ? KnownPattern<N>
        : Pattern

type KnownPattern<N extends EventNames> = Matching<
  EventOf<N['event']> | (string extends Published<N> ? never : Published<N>)
>

type Matching<Name extends string> = '*' | Name | Prefix<Name>

type Prefix<Name extends string> = Name extends `${infer First}.${infer Rest}`
  ? `${First}.*` | `${First}.${Prefix<Rest>}`
  : never

/** Texts that must be known patterns: all, or the namespaces of declared events if a satellite may publish any event. */
type Checked<N extends EventNames> =
  string extends Published<N> ? `${Exclude<First<EventOf<N['event']>>, (typeof NAMESPACES)[number]>}.${string}` : string

type First<Name extends string> = Name extends `${infer Segment}.${string}` ? Segment : Name

/** A request or filter in which the compiler checks names or patterns of events. */
type Checking<Request, Event extends string> = {
  [Member in keyof Request]: Member extends 'events'
    ? Event[]
    : Member extends 'event'
      ? Event | undefined
      : Request[Member]
}

export type Creation<N extends EventNames, Pattern extends string> = Checking<
  z.input<typeof NewSubscription>,
  PatternOf<N, Pattern>
>
export type Change<N extends EventNames, Pattern extends string> = Checking<
  z.input<typeof SubscriptionChange>,
  PatternOf<N, Pattern>
>
export type Listening<N extends EventNames, Pattern extends string> = Checking<ListenOptions, PatternOf<N, Pattern>>
export type Filter<N extends EventNames> = Checking<z.input<typeof DeliveryQuery>, DeliveredOf<N>>
export type FilterOfAll<N extends EventNames> = Checking<z.input<typeof AllDeliveriesQuery>, DeliveredOf<N>>
