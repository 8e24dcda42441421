/**
 * Fake payment provider: an HTTP server on loopback that implements Stripe's API for the real client, with a clock that
 * the test advances.
 *
 *   await using provider = await startProvider()
 *   const stripe = new Stripe(provider.apiKey, provider.clientOptions)
 *   const price = provider.price({ product: provider.product({ name: 'Pro' }).id, amount: 2900, interval: 'month' })
 *   const subscription = provider.subscribe(provider.customer().id, price.id, { trialDays: 14 })
 *   provider.advance({ days: 14, hours: 1 })   // the trial has ended, and its first invoice is final and paid
 *
 * - The clock is constant until it is advanced; then each due action runs at its own second.
 * - Every change is in `events`, in order.
 * - An unknown endpoint or parameter is rejected, never ignored.
 */
import Stripe from 'stripe'
import { moveTo } from './clock.ts'
import { type Controls, createControls } from './controls.ts'
import { deliver, type SignedEvent, signed } from './delivery.ts'
import { createFaults, type Faults } from './faults.ts'
import { listen } from './http.ts'
import { usage } from './meters.ts'
import { createResponder, type ProviderRequest } from './responder.ts'
import { createState, DAY_SECONDS, HOUR_SECONDS, type Settings } from './state.ts'

export { shuffled } from './delivery.ts'

export interface ProviderOptions extends Partial<Settings> {
  /** Initial time of the clock; default: the real time. */
  readonly start?: Date
}

export interface Signing {
  readonly secret: string
  /** Time of the signature; default: the provider's time. */
  readonly at?: Date
}

export interface Duration {
  readonly days?: number
  readonly hours?: number
  readonly seconds?: number
}

export interface Provider extends Controls {
  readonly apiKey: string
  readonly url: string
  /** For `new Stripe(apiKey, clientOptions)`. */
  readonly clientOptions: { readonly host: string; readonly port: number; readonly protocol: 'http' }
  /** Can be changed at any time. */
  readonly settings: Settings
  readonly faults: Faults
  /** All events, oldest first. */
  readonly events: readonly Stripe.Event[]
  /** All received requests, oldest first. */
  readonly requests: readonly ProviderRequest[]
  now(): Date
  advance(by: Duration): void
  /** Sets the mode of later objects and events; the key stays the same. */
  setLivemode(isLive: boolean): void
  /** Usage that a meter has counted for a customer. */
  usage(eventName: string, customerId: string): number
  signed(event: Stripe.Event, signing: Signing): SignedEvent
  /** Delivers sequentially. @returns the statuses of the responses */
  deliver(url: string, events: readonly Stripe.Event[], signing: Signing): Promise<number[]>
  /** Refuses connections until `up()`. */
  down(): Promise<void>
  up(): Promise<void>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const DEFAULTS: Settings = {
  apiKey: 'sk_test_provider',
  retryDays: [3, 5, 7],
  afterRetries: 'cancel',
  draftSeconds: HOUR_SECONDS,
  repeatedMeterEvents: 'reject',
  identifierHours: 24,
  searchDelaySeconds: 0,
}

export async function startProvider({ start = new Date(), ...settings }: ProviderOptions = {}): Promise<Provider> {
  const state = createState({ ...DEFAULTS, ...settings }, start)
  const faults = createFaults()
  const requests: ProviderRequest[] = []
  const responder = createResponder(state, Stripe.API_VERSION)
  const server = await listen({ responder, faults, requests, nextId: () => state.id('req') })
  const signedAt = (event: Stripe.Event, { secret, at }: Signing) =>
    signed(event, secret, at ? Math.floor(at.getTime() / 1000) : state.now)
  return {
    ...createControls(state),
    apiKey: state.settings.apiKey,
    url: `http://127.0.0.1:${server.port}`,
    clientOptions: { host: '127.0.0.1', port: server.port, protocol: 'http' },
    settings: state.settings,
    faults,
    events: state.events,
    requests,
    now: () => new Date(state.now * 1000),
    advance: ({ days = 0, hours = 0, seconds = 0 }) =>
      moveTo(state, state.now + days * DAY_SECONDS + hours * HOUR_SECONDS + seconds),
    setLivemode(isLive) {
      state.livemode = isLive
    },
    usage: (eventName, customerId) => usage(state, eventName, customerId),
    signed: signedAt,
    deliver: (url, events, signing) =>
      deliver(
        url,
        events.map((event) => signedAt(event, signing)),
      ),
    down: server.down,
    up: server.up,
    close: server.close,
    [Symbol.asyncDispose]: server.close,
  }
}
