/** What the provider knows, in memory. Objects are changed in place, through `events.ts`, so that every change is an event. */
import { randomBytes } from 'node:crypto'
import type Stripe from 'stripe'
import { noSuch, noSuchParam } from './errors.ts'

export interface Settings {
  /** The only key that is accepted; any other is answered with 401. */
  apiKey: string
  /** Days after a failed invoice was finalized on which it is tried again. */
  retryDays: readonly number[]
  /** What becomes of a subscription after the last retry. */
  afterRetries: 'cancel' | 'unpaid' | 'past_due'
  /** An invoice of a renewal is a draft for so long. */
  draftSeconds: number
  /** What is answered to a meter event whose identifier was sent before; it counts once either way. */
  repeatedMeterEvents: 'refuse' | 'accept'
  /** For how long identifiers of meter events are remembered; the provider promises 24 hours and no more. */
  identifierHours: number
  /** For how long a new or changed customer is not found by search. */
  searchDelaySeconds: number
}

export interface Collections {
  readonly customers: Map<string, Stripe.Customer>
  readonly products: Map<string, Stripe.Product>
  readonly prices: Map<string, Stripe.Price>
  readonly paymentMethods: Map<string, Stripe.PaymentMethod>
  readonly subscriptions: Map<string, Stripe.Subscription>
  readonly invoices: Map<string, Stripe.Invoice>
  readonly charges: Map<string, Stripe.Charge>
  readonly sessions: Map<string, Stripe.Checkout.Session>
  readonly meters: Map<string, Stripe.Billing.Meter>
}

export interface State extends Collections {
  readonly settings: Settings
  readonly accountId: string
  /** Seconds since 1970. */
  now: number
  livemode: boolean
  /** The request that is being carried out; of nulls when the provider acts by itself. */
  cause: Stripe.Event.Request
  readonly events: Stripe.Event[]
  /** Events that the provider no longer has. */
  readonly forgotten: Set<string>
  readonly deletedCustomers: Set<string>
  /** Payment methods that are declined. */
  readonly declining: Set<string>
  /** Prorations that wait for a subscription's next invoice. */
  readonly prorations: Map<string, Stripe.InvoiceLineItem[]>
  /** What a checkout session was asked to buy. */
  readonly orders: Map<string, Order>
  /** Trials of which `trial_will_end` has been said. */
  readonly warned: Set<string>
  /** Invoices that resume a paused subscription when they are paid. */
  readonly resuming: Set<string>
  readonly meterEvents: Stripe.Billing.MeterEvent[]
  /** When a customer was last changed, for search. */
  readonly customerChanges: Map<string, number>
  id(prefix: string): string
}

export interface Order {
  readonly items: readonly Wanted[]
  readonly trialDays: number | undefined
  readonly metadata: Record<string, string>
}

export interface Wanted {
  readonly price: Stripe.Price
  readonly quantity: number
}

export const AUTOMATIC: Stripe.Event.Request = { id: null, idempotency_key: null }

export const DAY_SECONDS = 86_400
export const HOUR_SECONDS = 3600

export function createState(settings: Settings, start: Date): State {
  const mark = randomBytes(4).toString('hex')
  let made = 0
  return {
    settings,
    accountId: `acct_${mark}`,
    now: Math.floor(start.getTime() / 1000),
    livemode: false,
    cause: AUTOMATIC,
    customers: new Map(),
    products: new Map(),
    prices: new Map(),
    paymentMethods: new Map(),
    subscriptions: new Map(),
    invoices: new Map(),
    charges: new Map(),
    sessions: new Map(),
    meters: new Map(),
    events: [],
    forgotten: new Set(),
    deletedCustomers: new Set(),
    declining: new Set(),
    prorations: new Map(),
    orders: new Map(),
    warned: new Set(),
    resuming: new Set(),
    meterEvents: [],
    customerChanges: new Map(),
    id: (prefix) => {
      made += 1
      return `${prefix}_${mark}${String(made).padStart(6, '0')}`
    },
  }
}

/** What the path of a request names. */
export function named<T>(collection: ReadonlyMap<string, T>, noun: string, id: string): T {
  const found = collection.get(id)
  if (!found) throw noSuch(noun, id)
  return found
}

/** What a parameter of a request names. */
export function referred<T>(collection: ReadonlyMap<string, T>, noun: string, id: string, param: string): T {
  const found = collection.get(id)
  if (!found) throw noSuchParam(noun, id, param)
  return found
}

export function livingCustomer(state: State, id: string, param = 'customer'): Stripe.Customer {
  if (state.deletedCustomers.has(id)) throw noSuchParam('customer', id, param)
  return referred(state.customers, 'customer', id, param)
}

/** The id of what may have been expanded. */
export function idOf(reference: string | { readonly id: string }): string {
  return typeof reference === 'string' ? reference : reference.id
}

/** What is on the wire: a deep copy in which decimals are strings and nothing is undefined. */
export function snapshot<T>(object: T): T {
  return JSON.parse(JSON.stringify(object)) as T
}
