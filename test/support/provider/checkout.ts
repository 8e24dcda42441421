/** Checkout sessions: open until the test completes them, a request expires them, or 24 hours have passed. */
import type Stripe from 'stripe'
import { type CustomerDraft, createCustomer } from './customers.ts'
import { invalid, missing } from './errors.ts'
import { emit } from './events.ts'
import { flag, hash, metadata, neededText, oneOf, type Params, text, whole } from './form.ts'
import { type CardDraft, giveCard } from './invoices/payment-methods.ts'
import { PAGING, pageOf } from './lists.ts'
import { get, post, type Route } from './routes.ts'
import { DAY_SECONDS, idOf, livingCustomer, named, type State } from './state.ts'
import { createSubscription } from './subscriptions/lifecycle.ts'
import { wantedItems } from './subscriptions/routes.ts'

function createSession(state: State, params: Params): Stripe.Checkout.Session {
  const mode = neededText(params, 'mode')
  if (mode !== 'subscription') throw invalid(`This provider supports only the mode subscription, not ${mode}.`, 'mode')
  const items = wantedItems(state, params, 'line_items')
  const customer = text(params, 'customer')
  if (customer) livingCustomer(state, customer)
  const email = text(params, 'customer_email')
  if (customer && email) throw invalid('You may only specify one of these parameters: customer, customer_email.')
  const successUrl = text(params, 'success_url')
  if (!successUrl) throw missing('success_url')
  const amount = items.reduce((sum, { price, quantity }) => sum + (price.unit_amount ?? 0) * quantity, 0)
  const data = hash(params, 'subscription_data') ?? {}
  const trialDays = whole(data, 'trial_period_days')
  const due = trialDays ? 0 : amount
  const id = state.id(state.livemode ? 'cs_live' : 'cs_test')
  const session = {
    id,
    object: 'checkout.session',
    adaptive_pricing: null,
    after_expiration: null,
    allow_promotion_codes: flag(params, 'allow_promotion_codes') ?? null,
    allowed_payment_method_types: null,
    amount_subtotal: due,
    amount_total: due,
    automatic_tax: { enabled: false, liability: null, provider: null, status: null },
    billing_address_collection: null,
    cancel_url: text(params, 'cancel_url') ?? null,
    client_reference_id: text(params, 'client_reference_id') ?? null,
    client_secret: null,
    collected_information: null,
    consent: null,
    consent_collection: null,
    created: state.now,
    currency: items[0]?.price.currency ?? null,
    currency_conversion: null,
    custom_fields: [],
    custom_text: { after_submit: null, shipping_address: null, submit: null, terms_of_service_acceptance: null },
    customer: customer ?? null,
    customer_account: null,
    customer_creation: customer ? null : 'always',
    customer_details: null,
    customer_email: email ?? null,
    discounts: [],
    expires_at: whole(params, 'expires_at') ?? state.now + DAY_SECONDS,
    integration_identifier: null,
    invoice: null,
    invoice_creation: null,
    livemode: state.livemode,
    locale: null,
    managed_payments: null,
    metadata: metadata(params),
    mode: 'subscription',
    origin_context: null,
    payment_intent: null,
    payment_link: null,
    payment_method_collection: oneOf(params, 'payment_method_collection', ['always', 'if_required']),
    payment_method_configuration_details: null,
    payment_method_options: null,
    payment_method_types: ['card'],
    payment_status: 'unpaid',
    permissions: null,
    recovered_from: null,
    saved_payment_method_options: null,
    setup_intent: null,
    shipping_address_collection: null,
    shipping_cost: null,
    shipping_options: [],
    status: 'open',
    submit_type: null,
    subscription: null,
    success_url: successUrl,
    total_details: { amount_discount: 0, amount_shipping: 0, amount_tax: 0 },
    ui_mode: 'hosted_page',
    url: `https://checkout.stripe.com/c/pay/${id}`,
    wallet_options: null,
  } satisfies Stripe.Checkout.Session
  state.sessions.set(id, session)
  state.orders.set(id, { items, trialDays, metadata: metadata(data) })
  return session
}

export interface Payer extends CustomerDraft {
  readonly card?: CardDraft
}

/** Completes the payment: a customer if there is none, a good card, the subscription, and their events. */
export function completeSession(state: State, session: Stripe.Checkout.Session, payer: Payer): Stripe.Checkout.Session {
  const order = state.orders.get(session.id)
  if (!order || session.status !== 'open') throw new Error(`the session ${session.id} is ${session.status}, not open`)
  const email = payer.email ?? session.customer_email ?? 'payer@example.com'
  const customer = session.customer
    ? livingCustomer(state, idOf(session.customer))
    : createCustomer(state, { ...payer, email })
  giveCard(state, customer, 'good', payer.card)
  const eventCount = state.events.length
  const subscription = createSubscription(state, {
    customer: customer.id,
    items: order.items,
    trialEnd: order.trialDays ? state.now + order.trialDays * DAY_SECONDS : null,
    missingPaymentMethod: 'create_invoice',
    metadata: order.metadata,
    description: null,
    cancelAtPeriodEnd: false,
    defaultPaymentMethod: null,
  })
  session.status = 'complete'
  session.url = null
  session.customer = customer.id
  session.subscription = subscription.id
  session.invoice = subscription.latest_invoice
  session.payment_status = session.amount_total === 0 ? 'no_payment_required' : 'paid'
  session.customer_details = {
    address: customer.address ?? null,
    business_name: null,
    email: customer.email,
    individual_name: customer.name ?? null,
    name: customer.name ?? null,
    phone: customer.phone ?? null,
    tax_exempt: 'none',
    tax_ids: [],
  }
  const completed = emit(state, 'checkout.session.completed', session)
  state.events.splice(eventCount, 0, ...state.events.splice(state.events.indexOf(completed), 1))
  return session
}

export function expireSession(state: State, session: Stripe.Checkout.Session): void {
  session.status = 'expired'
  session.url = null
  emit(state, 'checkout.session.expired', session)
}

export function lineItemsOf(state: State, sessionId: string): Stripe.LineItem[] {
  const items = state.orders.get(sessionId)?.items ?? []
  return items.map(({ price, quantity }, index) => {
    const amount = (price.unit_amount ?? 0) * quantity
    return {
      id: `li_${sessionId}_${index}`,
      object: 'item',
      adjustable_quantity: null,
      amount_discount: 0,
      amount_subtotal: amount,
      amount_tax: 0,
      amount_total: amount,
      currency: price.currency,
      description: price.nickname,
      metadata: {},
      price,
      quantity,
    }
  })
}

const CREATE = [
  'mode',
  'line_items',
  'customer',
  'customer_email',
  'client_reference_id',
  'success_url',
  'cancel_url',
  'subscription_data',
  'metadata',
  'allow_promotion_codes',
  'payment_method_collection',
  'expires_at',
]

export const checkoutRoutes: readonly Route[] = [
  post('/v1/checkout/sessions', CREATE, createSession),
  get('/v1/checkout/sessions/:id', [], (state, _, id) => named(state.sessions, 'checkout.session', id)),
  get('/v1/checkout/sessions/:id/line_items', PAGING, (state, params, id) => {
    named(state.sessions, 'checkout.session', id)
    return pageOf(lineItemsOf(state, id).reverse(), params, `/v1/checkout/sessions/${id}/line_items`)
  }),
  post('/v1/checkout/sessions/:id/expire', [], (state, _, id) => {
    const session = named(state.sessions, 'checkout.session', id)
    if (session.status !== 'open') {
      throw invalid(`Only Checkout Sessions with a status in ["open"] can be expired. This one is ${session.status}.`)
    }
    expireSession(state, session)
    return session
  }),
]
