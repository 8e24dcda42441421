/** Customers. A deleted customer is still returned, as deleted, and can no longer be charged or subscribed. */
import type Stripe from 'stripe'
import { emit, update } from './events.ts'
import { hash, metadata, neededText, type Params, text, within } from './form.ts'
import { PAGING, pageOf } from './lists.ts'
import { del, get, post, type Route } from './routes.ts'
import { searched } from './search.ts'
import { named, referred, type State } from './state.ts'
import { cancel, subscriptionsOf } from './subscriptions/subscriptions.ts'

export interface CustomerDraft {
  readonly name?: string | null
  readonly email?: string | null
  readonly phone?: string | null
  readonly description?: string | null
  readonly address?: Partial<Stripe.Address> | null
  readonly metadata?: Record<string, string>
}

export function createCustomer(state: State, draft: CustomerDraft): Stripe.Customer {
  const id = state.id('cus')
  const customer: Stripe.Customer = {
    id,
    object: 'customer',
    address: draft.address ? { ...NO_ADDRESS, ...draft.address } : null,
    balance: 0,
    created: state.now,
    currency: null,
    customer_account: null,
    default_source: null,
    delinquent: false,
    description: draft.description ?? null,
    discount: null,
    email: draft.email ?? null,
    invoice_prefix: id.slice(-8).toUpperCase(),
    invoice_settings: { custom_fields: null, default_payment_method: null, footer: null, rendering_options: null },
    livemode: state.livemode,
    metadata: draft.metadata ?? {},
    name: draft.name ?? null,
    next_invoice_sequence: 1,
    phone: draft.phone ?? null,
    preferred_locales: [],
    shipping: null,
    tax_exempt: 'none',
    test_clock: null,
  }
  state.customers.set(id, customer)
  state.customerChanges.set(id, state.now)
  emit(state, 'customer.created', customer)
  return customer
}

const NO_ADDRESS: Stripe.Address = {
  city: null,
  country: null,
  line1: null,
  line2: null,
  postal_code: null,
  state: null,
}

export function updateCustomer(state: State, customer: Stripe.Customer, edit: (customer: Stripe.Customer) => void) {
  update(state, 'customer.updated', customer, edit)
  state.customerChanges.set(customer.id, state.now)
}

/** Ends its subscriptions immediately, each with an event. */
export function deleteCustomer(state: State, customer: Stripe.Customer): DeletedCustomer {
  for (const subscription of subscriptionsOf(state, customer.id)) {
    if (!ENDED.has(subscription.status)) cancel(state, subscription, 'cancellation_requested')
  }
  state.deletedCustomers.add(customer.id)
  emit(state, 'customer.deleted', customer)
  return { id: customer.id, object: 'customer', deleted: true }
}

type DeletedCustomer = Stripe.DeletedCustomer

const ENDED: ReadonlySet<Stripe.Subscription.Status> = new Set(['canceled', 'incomplete_expired'])

export function customerResponse(state: State, id: string): Stripe.Customer | DeletedCustomer {
  const customer = named(state.customers, 'customer', id)
  return state.deletedCustomers.has(id) ? { id, object: 'customer', deleted: true } : customer
}

function living(state: State): Stripe.Customer[] {
  return [...state.customers.values()].filter(({ id }) => !state.deletedCustomers.has(id))
}

function livingNamed(state: State, id: string): Stripe.Customer {
  return named(new Map(living(state).map((customer) => [customer.id, customer])), 'customer', id)
}

function applied(state: State, customer: Stripe.Customer, params: Params): void {
  for (const name of ['name', 'email', 'phone', 'description'] as const) {
    const value = text(params, name)
    if (value !== undefined) customer[name] = value === '' ? null : value
  }
  const address = addressOf(params)
  if (address !== undefined) customer.address = address && { ...NO_ADDRESS, ...address }
  customer.metadata = metadata(params, customer.metadata)
  const method = text(hash(params, 'invoice_settings') ?? {}, 'default_payment_method')
  if (method === undefined) return
  const param = 'invoice_settings[default_payment_method]'
  customer.invoice_settings.default_payment_method =
    method === '' ? null : referred(state.paymentMethods, 'PaymentMethod', method, param).id
}

function addressOf(params: Params): Partial<Stripe.Address> | null | undefined {
  if (params.address === '') return null
  const address = hash(params, 'address')
  return address && (Object.fromEntries(Object.entries(address)) as Partial<Stripe.Address>)
}

const CUSTOMER = ['name', 'email', 'phone', 'description', 'address', 'metadata', 'preferred_locales']

export const customerRoutes: readonly Route[] = [
  post('/v1/customers', CUSTOMER, (state, params) =>
    createCustomer(state, {
      name: text(params, 'name'),
      email: text(params, 'email'),
      phone: text(params, 'phone'),
      description: text(params, 'description'),
      address: addressOf(params),
      metadata: metadata(params),
    }),
  ),
  get('/v1/customers/search', ['query', 'limit', 'page'], (state, params) => {
    const findable = living(state).filter(
      ({ id }) => state.now - (state.customerChanges.get(id) ?? 0) >= state.settings.searchDelaySeconds,
    )
    return searched(findable, neededText(params, 'query'), params, '/v1/customers/search')
  }),
  get('/v1/customers/:id', [], (state, _, id) => customerResponse(state, id)),
  post('/v1/customers/:id', [...CUSTOMER, 'invoice_settings'], (state, params, id) => {
    const customer = livingNamed(state, id)
    updateCustomer(state, customer, (one) => applied(state, one, params))
    return customer
  }),
  del('/v1/customers/:id', [], (state, _, id) => deleteCustomer(state, livingNamed(state, id))),
  get('/v1/customers', [...PAGING, 'email', 'created'], (state, params) => {
    const email = text(params, 'email')
    return pageOf(
      state.customers.values(),
      params,
      '/v1/customers',
      (customer) =>
        !state.deletedCustomers.has(customer.id) &&
        (email === undefined || customer.email === email) &&
        within(params, 'created', customer.created),
    )
  }),
]
