/**
 * State of the provider, in memory. Objects are changed in place through `events.ts`, so that every change emits an
 * event.
 */
import { randomBytes } from 'node:crypto'
import type Stripe from 'stripe'
import { noSuch, noSuchParam } from './errors.ts'

export interface Settings {
  /** The only valid key; others get 401. */
  apiKey: string
  /** Days of the retries, counted from the finalization of the invoice. */
  retryDays: readonly number[]
  /** Effect of the last failed retry on a subscription. */
  afterRetries: 'cancel' | 'unpaid' | 'past_due'
  /** Time for which the invoice of a renewal is a draft. */
  draftSeconds: number
  /** Response to a repeated identifier of a meter event, which counts once in both cases. */
  repeatedMeterEvents: 'reject' | 'accept'
  /** Time for which identifiers of meter events are remembered. The provider promises 24 hours. */
  identifierHours: number
  /** Delay until search finds a new or changed customer. */
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
  /** The current request; nulls for automatic actions of the provider. */
  cause: Stripe.Event.Request
  readonly events: Stripe.Event[]
  /** Events that the provider no longer has. */
  readonly forgotten: Set<string>
  readonly deletedCustomers: Set<string>
  /** Declined payment methods. */
  readonly declining: Set<string>
  /** Pending prorations for the next invoice, by subscription. */
  readonly prorations: Map<string, Stripe.InvoiceLineItem[]>
  /** Orders of checkout sessions. */
  readonly orders: Map<string, Order>
  /** Trials with an emitted `trial_will_end`. */
  readonly warned: Set<string>
  /** Invoices whose payment resumes a paused subscription. */
  readonly resuming: Set<string>
  readonly meterEvents: Stripe.Billing.MeterEvent[]
  /** Time of the last change of each customer, for search. */
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

/** Object in the path of a request. */
export function named<T>(collection: ReadonlyMap<string, T>, noun: string, id: string): T {
  const found = collection.get(id)
  if (!found) throw noSuch(noun, id)
  return found
}

/** Object in a parameter of a request. */
export function referred<T>(collection: ReadonlyMap<string, T>, noun: string, id: string, param: string): T {
  const found = collection.get(id)
  if (!found) throw noSuchParam(noun, id, param)
  return found
}

export function livingCustomer(state: State, id: string, param = 'customer'): Stripe.Customer {
  if (state.deletedCustomers.has(id)) throw noSuchParam('customer', id, param)
  return referred(state.customers, 'customer', id, param)
}

/** Id of a reference that may be expanded. */
export function idOf(reference: string | { readonly id: string }): string {
  return typeof reference === 'string' ? reference : reference.id
}

/** Copy in the form of a response: decimals are strings, and undefined members are removed. */
export function snapshot<T>(object: T): T {
  return JSON.parse(JSON.stringify(object)) as T
}
