/** Routes of the account: balance, account, portal sessions, events. */
import type Stripe from 'stripe'
import { invalid, noSuch } from './errors.ts'
import { neededText, type Params, text, texts, within } from './form.ts'
import { type Listed, PAGING, pageOf } from './lists.ts'
import { get, post, type Route } from './routes.ts'
import { DAY_SECONDS, livingCustomer, type State } from './state.ts'

const KEPT_DAYS = 30

/** The provider keeps events for 30 days. */
function isKept(state: State, event: Stripe.Event): boolean {
  return !state.forgotten.has(event.id) && state.now - event.created <= KEPT_DAYS * DAY_SECONDS
}

function isOfType(event: Stripe.Event, wanted: readonly string[]): boolean {
  return wanted.some((type) => (type.endsWith('*') ? event.type.startsWith(type.slice(0, -1)) : event.type === type))
}

function listedEvents(state: State, params: Params): Listed<Stripe.Event> {
  const type = text(params, 'type')
  const types = texts(params, 'types')
  if (type && types.length > 0) throw invalid('You may only specify one of these parameters: type, types.')
  const wanted = type ? [type] : types
  const kept = state.events.filter((event) => isKept(state, event))
  return pageOf(
    kept,
    params,
    '/v1/events',
    (event) => (wanted.length === 0 || isOfType(event, wanted)) && within(params, 'created', event.created),
  )
}

function portalSession(state: State, params: Params): Stripe.BillingPortal.Session {
  const customer = livingCustomer(state, neededText(params, 'customer')).id
  const id = state.id('bps')
  return {
    id,
    object: 'billing_portal.session',
    configuration: text(params, 'configuration') ?? `bpc_${state.accountId}`,
    created: state.now,
    customer,
    customer_account: null,
    flow: null,
    livemode: state.livemode,
    locale: null,
    on_behalf_of: null,
    return_url: text(params, 'return_url') ?? null,
    url: `https://billing.stripe.com/p/session/${id}`,
  }
}

function account(state: State): Stripe.Account {
  return {
    id: state.accountId,
    object: 'account',
    charges_enabled: true,
    country: 'US',
    default_currency: 'usd',
    details_submitted: true,
    email: null,
    payouts_enabled: true,
    type: 'standard',
  }
}

function balance(state: State): Stripe.Balance {
  const nothing = [{ amount: 0, currency: 'usd', source_types: { card: 0 } }]
  return { object: 'balance', available: nothing, livemode: state.livemode, pending: nothing }
}

export const accountRoutes: readonly Route[] = [
  get('/v1/balance', [], balance),
  get('/v1/account', [], account),
  post('/v1/billing_portal/sessions', ['customer', 'return_url', 'configuration'], portalSession),
  get('/v1/events/:id', [], (state, _, id) => {
    const event = state.events.find((one) => one.id === id)
    if (!event || !isKept(state, event)) throw noSuch('event', id)
    return event
  }),
  get('/v1/events', [...PAGING, 'type', 'types', 'created'], listedEvents),
]
