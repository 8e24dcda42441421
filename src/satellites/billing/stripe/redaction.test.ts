/**
 * Tests that redaction removes personal data from every member of an event, and keeps all members that processing
 * reads.
 */
import Stripe from 'stripe'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from '../billing.fixture.ts'
import { toSubject } from './objects.ts'
import { redact } from './redaction.ts'

const PERSON = {
  name: 'Ada Lovelace-Planted',
  email: 'ada.planted@example.com',
  phone: '+49 151 23456789',
  line1: 'Planted Street 12b',
  city: 'Plantedham',
  postal_code: 'SW1A 1AA',
  digits: '4111',
  text: 'She said: please call me back!',
}
const ADDRESS = { line1: PERSON.line1, city: PERSON.city, postal_code: PERSON.postal_code, country: 'GB' }
/** Values that have the form of an id. */
const WORDS = [PERSON.city, PERSON.digits]
const METADATA = { owner: PERSON.name, mail: PERSON.email, tenantId: PERSON.email, note: PERSON.text }

const tracesIn = (value: unknown): string[] => {
  const text = JSON.stringify(value) ?? ''
  return Object.values(PERSON).filter((planted) =>
    // Ids and times can contain short digit sequences by chance.
    planted === PERSON.digits
      ? /(?<![\w.-])4111(?![\w-])/.test(text)
      : text.includes(JSON.stringify(planted).slice(1, -1)),
  )
}

let open: OpenBilling

/** The life of a subscription with personal data in every writable member. */
beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), { provider: { afterRetries: 'past_due' } })
  const { provider } = open
  const stripe = new Stripe(provider.apiKey, provider.clientOptions)
  const tenantId = await open.tenant()
  const product = provider.product({ name: PERSON.name, description: PERSON.text, metadata: METADATA })
  const price = provider.price({
    product: product.id,
    amount: 500,
    interval: 'month',
    lookupKey: PERSON.email,
    metadata: METADATA,
  })
  const customer = await stripe.customers.create({
    name: PERSON.name,
    email: PERSON.email,
    phone: PERSON.phone,
    description: PERSON.text,
    address: ADDRESS,
    metadata: METADATA,
  })
  const line = { price: open.prices.pro, quantity: 1 }
  const urls = { success_url: 'https://app.example/paid', metadata: METADATA }
  const mistaken = await stripe.checkout.sessions.create({
    mode: 'subscription',
    line_items: [line],
    customer_email: PERSON.email,
    client_reference_id: PERSON.email,
    subscription_data: { metadata: METADATA, description: PERSON.text },
    ...urls,
  })
  const card = { last4: PERSON.digits, billingDetails: { name: PERSON.name, email: PERSON.email, phone: PERSON.phone } }
  provider.completeCheckout(mistaken.id, { name: PERSON.name, phone: PERSON.phone, address: ADDRESS, card })
  const right = await stripe.checkout.sessions.create({
    mode: 'subscription',
    line_items: [line],
    customer: customer.id,
    client_reference_id: tenantId,
    subscription_data: { metadata: { ...METADATA, tenantId }, trial_period_days: 2 },
    ...urls,
  })
  const { subscription } = provider.completeCheckout(right.id, { card })
  const id = subscription as string
  await stripe.subscriptions.update(id, { description: PERSON.text, metadata: METADATA })
  provider.setPaymentMethod(customer.id, 'declines', card)
  provider.advance({ days: 40 })
  provider.setPaymentMethod(customer.id, 'good', card)
  provider.changePrice(id, price.id, 'always_invoice')
  provider.pause(id)
  provider.resume(id)
  await stripe.subscriptions.update(id, {
    pause_collection: { behavior: 'void' },
    cancellation_details: { comment: PERSON.text },
  })
  await stripe.customers.update(customer.id, { name: `${PERSON.name} II`, metadata: { other: PERSON.phone } })
  await stripe.subscriptions.cancel(id, { cancellation_details: { comment: PERSON.text } })
  provider.deleteCustomer(customer.id)
})
afterAll(() => open.end())

const eventsOf = (): Record<string, any>[] => open.provider.events.map((event) => structuredClone(event) as any)

test('the events of the simulated life have all types and contain all personal data', () => {
  const types = new Set(open.provider.events.map(({ type }) => type))
  for (const type of [
    'checkout.session.completed',
    'customer.created',
    'customer.updated',
    'customer.deleted',
    'customer.subscription.created',
    'customer.subscription.updated',
    'customer.subscription.paused',
    'customer.subscription.resumed',
    'customer.subscription.trial_will_end',
    'customer.subscription.deleted',
    'invoice.payment_succeeded',
    'invoice.payment_failed',
    'charge.succeeded',
    'charge.failed',
    'payment_method.attached',
    'product.created',
    'price.created',
  ]) {
    expect(types).toContain(type)
  }
  expect(tracesIn(open.provider.events)).toEqual(Object.values(PERSON))
})

describe('redact', () => {
  test('removes all personal data from each event', () => {
    for (const event of eventsOf()) expect([event.type, tracesIn(redact(event))]).toEqual([event.type, []])
  })

  test('keeps all members that processing reads', () => {
    for (const event of eventsOf()) {
      const { type, data } = event
      // A value that is not a tenant id is removed.
      for (const object of [data.object, data.previous_attributes]) {
        if (object?.metadata?.tenantId === PERSON.email) delete object.metadata.tenantId
        if (object?.client_reference_id === PERSON.email) object.client_reference_id = null
      }
      expect([type, toSubject(type, redact(event))]).toEqual([type, toSubject(type, event)])
    }
  })

  test('is idempotent', () => {
    for (const event of eventsOf()) expect(redact(redact(event))).toEqual(redact(event))
  })

  test.each(Object.values(PERSON).filter((planted) => !WORDS.includes(planted)))(
    'removes "%s" from every member',
    (planted) => {
      for (const event of eventsOf()) {
        event.data = everywhere(event.data, (leaf) => (leaf === event.data.object.object ? leaf : planted))
        expect([event.type, tracesIn(redact(event))]).toEqual([event.type, []])
      }
    },
  )

  test.each(WORDS)('keeps the id-like value "%s" only in members for ids', (planted) => {
    const places = new Set<string>()
    for (const event of eventsOf()) {
      for (const path of pathsOf(event.data)) {
        const changed = structuredClone(event)
        put(changed.data, path, planted)
        if (tracesIn(redact(changed)).length > 0) places.add(path.join('.'))
      }
    }
    expect(places.size).toBeGreaterThan(0)
    for (const place of places) {
      expect(place).toMatch(/\.(id|customer|subscription|product|client_reference_id|metadata\.tenantId)$/)
    }
  })

  test('removes unknown members that the provider may add', () => {
    for (const event of eventsOf()) {
      const extended = { ...event, future: PERSON.name, data: { ...extendedBy(event.data), future: PERSON.text } }
      expect(redact(extended)).toEqual(redact(event))
    }
  })

  test('keeps only type, id and customer of an unknown object', () => {
    const object = {
      id: 'new_1',
      object: 'novelty',
      customer: 'cus_1',
      owner: PERSON.name,
      metadata: { tenantId: 'acme' },
    }
    const event = {
      id: 'evt_1',
      object: 'event',
      type: 'novelty.created',
      created: 1,
      livemode: true,
      data: { object },
    }
    expect(redact(event).data).toEqual({ object: { id: 'new_1', object: 'novelty', customer: 'cus_1' } })
  })

  test.each([
    ['nothing', {}],
    ['no object', { data: {} }],
    ['null', { data: { object: null } }],
    ['a text', { data: { object: PERSON.text, previous_attributes: PERSON.text } }],
    ['a list', { data: { object: [PERSON], previous_attributes: [PERSON] } }],
    [
      'texts in place of objects',
      { data: { object: { object: 'subscription', items: PERSON.name, metadata: PERSON.text } } },
    ],
    [
      'lists in place of objects',
      { data: { object: { object: 'subscription', items: [PERSON], metadata: [PERSON] } } },
    ],
    ['objects in place of texts', { data: { object: { object: 'subscription', id: PERSON, status: [PERSON.text] } } }],
    [
      'names of built-in object members',
      { data: { object: JSON.parse(`{"object":"subscription","__proto__":{"id":"x"}}`) } },
    ],
  ])('removes personal data from a payload with %s', (_, part) => {
    expect(tracesIn(redact({ id: 'evt_1', type: 'customer.subscription.updated', created: 1, ...part }))).toEqual([])
  })
})

test('database, log and published events contain no personal data after all events are received and processed', async () => {
  expect(new Set(await open.deliver(open.provider.events))).toEqual(new Set([200]))
  await open.process()
  const inbox = await open.inbox()
  expect(inbox).toHaveLength(open.provider.events.length)
  // The tenant of the checkout that has a mail address as tenant id cannot be resolved.
  expect(new Set(inbox.map(({ errorCode }) => errorCode))).toEqual(new Set([null, 'tenant_not_resolvable']))
  const { database } = open.tenancy.kernel
  const { rows: tables } = await database.sql(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema like 'multitenancy%' and table_type = 'BASE TABLE'`,
  )
  for (const { name } of tables) {
    const { rows } = await database.sql(`select to_jsonb(one) as row from ${name} as one`)
    expect([name, tracesIn(rows)]).toEqual([name, []])
  }
  expect(tracesIn(open.log)).toEqual([])
  expect(tracesIn(open.receivedEvents)).toEqual([])
})

/** Applies `change` to each value that is neither an object nor a list. */
function everywhere(value: any, change: (leaf: unknown) => unknown): any {
  if (Array.isArray(value)) return value.map((one) => everywhere(one, change))
  if (typeof value !== 'object' || value === null) return change(value)
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, everywhere(one, change)]))
}

function extendedBy(value: any): any {
  if (Array.isArray(value)) return value.map(extendedBy)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, one]) => [name, extendedBy(one)])
  return { ...Object.fromEntries(members), future_note: PERSON.text, future_owner: { name: PERSON.name } }
}

function* pathsOf(value: any, path: readonly string[] = []): Generator<readonly string[]> {
  if (typeof value !== 'object' || value === null) yield path
  else for (const [name, one] of Object.entries(value)) yield* pathsOf(one, [...path, name])
}

function put(value: any, path: readonly string[], planted: string): void {
  const [name = '', ...rest] = path
  if (rest.length === 0) value[name] = planted
  else put(value[name], rest, planted)
}
