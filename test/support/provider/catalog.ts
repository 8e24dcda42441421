/** Products and their prices. */
import type Stripe from 'stripe'
import { invalid } from './errors.ts'
import { emit } from './events.ts'
import { flag, hash, metadata, neededText, oneOf, type Params, text, texts, whole, within } from './form.ts'
import { PAGING, pageOf } from './lists.ts'
import { get, post, type Route } from './routes.ts'
import { named, referred, type State } from './state.ts'

export interface ProductDraft {
  readonly id?: string
  readonly name: string
  readonly description?: string | null
  readonly active?: boolean
  readonly metadata?: Record<string, string>
}

export function createProduct(state: State, draft: ProductDraft): Stripe.Product {
  const id = draft.id ?? state.id('prod')
  if (state.products.has(id)) throw invalid(`Product already exists: ${id}`, 'id', 'resource_already_exists')
  const product: Stripe.Product = {
    id,
    object: 'product',
    active: draft.active ?? true,
    created: state.now,
    default_price: null,
    description: draft.description ?? null,
    images: [],
    livemode: state.livemode,
    marketing_features: [],
    metadata: draft.metadata ?? {},
    name: draft.name,
    package_dimensions: null,
    shippable: null,
    statement_descriptor: null,
    tax_code: null,
    tax_details: null,
    type: 'service',
    unit_label: null,
    updated: state.now,
    url: null,
  }
  state.products.set(id, product)
  emit(state, 'product.created', product)
  return product
}

export interface PriceDraft {
  readonly id?: string
  readonly product: string
  /** Amount in the smallest unit of the currency. */
  readonly amount: number
  readonly currency?: string
  /** Undefined for a one-time price. */
  readonly interval?: 'day' | 'week' | 'month' | 'year'
  readonly intervalCount?: number
  /** Meter of a metered price. */
  readonly meter?: string
  readonly active?: boolean
  readonly lookupKey?: string | null
  readonly nickname?: string | null
  readonly metadata?: Record<string, string>
}

export function createPrice(state: State, draft: PriceDraft): Stripe.Price {
  referred(state.products, 'product', draft.product, 'product')
  if (draft.meter) referred(state.meters, 'meter', draft.meter, 'recurring[meter]')
  const price: Stripe.Price = {
    id: draft.id ?? state.id('price'),
    object: 'price',
    active: draft.active ?? true,
    billing_scheme: 'per_unit',
    created: state.now,
    currency: draft.currency ?? 'usd',
    custom_unit_amount: null,
    livemode: state.livemode,
    lookup_key: draft.lookupKey ?? null,
    metadata: draft.metadata ?? {},
    nickname: draft.nickname ?? null,
    product: draft.product,
    recurring: draft.interval
      ? {
          interval: draft.interval,
          interval_count: draft.intervalCount ?? 1,
          meter: draft.meter ?? null,
          trial_period_days: null,
          usage_type: draft.meter ? 'metered' : 'licensed',
        }
      : null,
    tax_behavior: 'unspecified',
    tiers_mode: null,
    transform_quantity: null,
    type: draft.interval ? 'recurring' : 'one_time',
    unit_amount: draft.amount,
    unit_amount_decimal: decimal(draft.amount),
  }
  state.prices.set(price.id, price)
  emit(state, 'price.created', price)
  return price
}

/** A decimal is a string in JSON; the client converts it to its `Decimal`. */
export function decimal(amount: number): Stripe.Decimal {
  return String(amount) as unknown as Stripe.Decimal
}

/** Legacy form of a price, which items of subscriptions still contain. */
export function planOf(price: Stripe.Price): Stripe.Plan {
  return {
    id: price.id,
    object: 'plan',
    active: price.active,
    amount: price.unit_amount,
    amount_decimal: price.unit_amount_decimal,
    billing_scheme: price.billing_scheme,
    created: price.created,
    currency: price.currency,
    interval: price.recurring?.interval ?? 'month',
    interval_count: price.recurring?.interval_count ?? 1,
    livemode: price.livemode,
    metadata: price.metadata,
    meter: price.recurring?.meter ?? null,
    nickname: price.nickname,
    product: price.product,
    tiers_mode: null,
    transform_usage: null,
    trial_period_days: null,
    usage_type: price.recurring?.usage_type ?? 'licensed',
  }
}

function priceDraft(params: Params): PriceDraft {
  const recurring = hash(params, 'recurring')
  if (recurring && !recurring.interval) neededText({}, 'recurring[interval]')
  return {
    product: neededText(params, 'product'),
    amount: whole(params, 'unit_amount') ?? 0,
    currency: neededText(params, 'currency'),
    interval: recurring && oneOf(recurring, 'interval', ['month', 'day', 'week', 'year']),
    intervalCount: recurring && whole(recurring, 'interval_count'),
    meter: recurring && text(recurring, 'meter'),
    active: flag(params, 'active'),
    lookupKey: text(params, 'lookup_key'),
    nickname: text(params, 'nickname'),
    metadata: metadata(params),
  }
}

const PRICE = ['product', 'unit_amount', 'currency', 'recurring', 'active', 'lookup_key', 'nickname', 'metadata']

export const catalogRoutes: readonly Route[] = [
  post('/v1/products', ['id', 'name', 'description', 'active', 'metadata'], (state, params) =>
    createProduct(state, {
      id: text(params, 'id'),
      name: neededText(params, 'name'),
      description: text(params, 'description'),
      active: flag(params, 'active'),
      metadata: metadata(params),
    }),
  ),
  get('/v1/products/:id', [], (state, _, id) => named(state.products, 'product', id)),
  get('/v1/products', [...PAGING, 'active', 'ids', 'created'], (state, params) => {
    const ids = texts(params, 'ids')
    const active = flag(params, 'active')
    const isWanted = (product: Stripe.Product) =>
      (ids.length === 0 || ids.includes(product.id)) &&
      (active === undefined || product.active === active) &&
      within(params, 'created', product.created)
    return pageOf(state.products.values(), params, '/v1/products', isWanted)
  }),
  post('/v1/prices', PRICE, (state, params) => createPrice(state, priceDraft(params))),
  get('/v1/prices/:id', [], (state, _, id) => named(state.prices, 'price', id)),
  get('/v1/prices', [...PAGING, 'active', 'product', 'type', 'currency', 'lookup_keys', 'created'], (state, params) => {
    const active = flag(params, 'active')
    const keys = texts(params, 'lookup_keys')
    const is = (name: string, value: string) => [undefined, value].includes(text(params, name))
    const isWanted = (price: Stripe.Price) =>
      (active === undefined || price.active === active) &&
      (keys.length === 0 || keys.includes(price.lookup_key ?? '')) &&
      is('product', String(price.product)) &&
      is('type', price.type) &&
      is('currency', price.currency) &&
      within(params, 'created', price.created)
    return pageOf(state.prices.values(), params, '/v1/prices', isWanted)
  }),
]
