/**
 * Tests that tables, jobs, events and log contain no personal data after a complete history with names, addresses and
 * cards.
 */
import Stripe from 'stripe'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { type OpenBilling, openBilling } from './billing.fixture.ts'

const ADDRESS = { line1: '12 Babbage Crescent', city: 'Analyticsville', postal_code: 'ZX9 8QY', country: 'GB' }
const PERSON = { name: 'Ada Quixote-Lovelace', email: 'ada.quixote@example.com', phone: '+44 20 7946 0958' }
const CARD = {
  brand: 'visa',
  last4: '8317',
  billingDetails: { ...PERSON, address: { ...ADDRESS, line2: null, state: null } },
}
const MEMO = 'please charge 4000 0566 5566 8317, valid 09/31, not my old one'

/** Patterns of the planted data that do not occur by chance in ids and times. */
const PLANTED = [
  /quixote/i,
  /7946 0958/,
  /babbage/i,
  /analyticsville/i,
  /ZX9/,
  /please charge/,
  /(?<![\w.-])8317(?![\w-])/,
]

let open: OpenBilling
let stripe: Stripe

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 1, graceDays: 2, action: 'suspend' } },
    events: 'all',
  })
  stripe = new Stripe(open.provider.apiKey, open.provider.clientOptions)
  open.provider.meter({ eventName: 'api_calls' })
})
afterAll(() => open.end())

/** All rows of all tables as text, by table. */
async function everything(): Promise<Map<string, string>> {
  const { database } = open.tenancy.kernel
  const { rows: tables } = await database.sql(
    `select format('%I.%I', table_schema, table_name) as name, array_agg(case data_type
       when 'bytea' then format('encode(%I, ''escape'')', column_name) else format('%I::text', column_name) end) as texts
     from information_schema.columns join information_schema.tables using (table_schema, table_name)
     where table_schema in ('multitenancy', 'multitenancy_jobs') and table_type = 'BASE TABLE'
       and data_type in ('text', 'character varying', 'character', 'json', 'jsonb', 'ARRAY', 'USER-DEFINED', 'bytea')
     group by 1`,
  )
  const all = new Map<string, string>()
  for (const { name, texts } of tables) {
    const { rows } = await database.sql(`select concat_ws(' | ', ${texts.join(', ')}) as row from ${name}`)
    all.set(name, rows.map(({ row }) => row).join('\n'))
  }
  return all
}

const planted = (text: string): string[] => PLANTED.flatMap((part) => text.match(part)?.[0] ?? [])

async function subscribed(): Promise<{ tenantId: string; customerId: string; subscriptionId: string }> {
  const { billing } = open.tenancy
  const tenantId = await open.tenant()
  const customerId = await billing.ensureCustomer(tenantId)
  await stripe.customers.update(customerId, { ...PERSON, address: ADDRESS, description: MEMO })
  const { id } = await billing.checkout(tenantId, {
    priceId: open.prices.pro,
    successUrl: 'https://app.example/paid',
    cancelUrl: 'https://app.example/plans',
    trialDays: 3,
  })
  const { subscription } = open.provider.completeCheckout(id as string, { card: CARD })
  await open.deliverAndProcess()
  return { tenantId, customerId, subscriptionId: subscription as string }
}

/** Events about objects that billing does not process, and events with personal data in the wrong members. */
async function strange(customerId: string): Promise<void> {
  const { provider } = open
  const [customer, details] = [{ customer: customerId }, { name: PERSON.name, email: PERSON.email, address: ADDRESS }]
  const metadata = { tenantId: PERSON.email, note: MEMO }
  provider.emit('charge.failed', {
    object: 'charge',
    id: 'ch_1',
    ...customer,
    billing_details: details,
    description: MEMO,
  })
  provider.emit('customer.tax_id.created', { object: 'tax_id', id: 'txi_1', ...customer, value: PERSON.name })
  provider.emit('invoiceitem.created', { object: 'invoiceitem', id: PERSON.email, ...customer, description: MEMO })
  provider.emit('customer.updated', { object: 'customer', id: customerId, ...PERSON, address: ADDRESS, metadata })
  provider.emit('checkout.session.completed', {
    ...{ object: 'checkout.session', id: 'cs_1', customer: 'cus_1', client_reference_id: PERSON.email, metadata },
    customer_details: details,
  })
  provider.emit('customer.subscription.updated', {
    ...{ object: 'subscription', id: 'sub_1', customer: PERSON.name, status: MEMO, description: MEMO, metadata },
    items: { object: 'list', data: [{ id: 'si_1', price: { id: MEMO, product: PERSON.email, nickname: MEMO } }] },
  })
  provider.emit('invoice.payment_failed', {
    ...{ object: 'invoice', id: 'in_1', customer: PERSON.email, customer_name: PERSON.name, description: MEMO },
    ...{ currency: MEMO, lines: { data: [{ id: 'il_1', description: MEMO, period: { start: MEMO } }] }, metadata },
  })
  provider.emit('person.created' as never, { ...details, object: 'person', id: 'person_1', nested: { name: PERSON } })
  await open.deliverAndProcess()
}

test('billing stores and logs no personal data', async () => {
  const { provider, tenancy } = open
  const { tenantId, customerId, subscriptionId } = await subscribed()

  await tenancy.billing.reportUsage(tenantId, 'api_calls', 7, { id: uuidv7() })
  await tenancy.billing.changePlan(tenantId, { priceId: open.prices.scale })
  await tenancy.billing.portal(tenantId, { returnUrl: 'https://app.example' })
  provider.advance({ days: 4 })
  await open.deliverAndProcess()
  provider.setPaymentMethod(customerId, 'declines', CARD)
  provider.advance({ days: 32 })
  await open.deliverAndProcess()
  await stripe.customers.update(customerId, { email: `new.${PERSON.email}` })
  await tenancy.billing.dunning.sweep(AbortSignal.timeout(10_000))
  provider.setPaymentMethod(customerId, 'good', CARD)
  provider.advance({ days: 8 })
  await open.deliverAndProcess()
  await strange(customerId)
  await stripe.subscriptions.cancel(subscriptionId, { cancellation_details: { comment: MEMO } })
  provider.deleteCustomer(customerId)
  await open.deliverAndProcess()

  const worker = await open.open({ role: 'worker' })
  await eventually(async () => {
    const counts = await worker.kernel.jobs.counts()
    expect(counts.filter(({ waiting, active }) => waiting + active > 0)).toEqual([])
  }, 60_000)
  await worker.stop()

  const sent = JSON.stringify(provider.events)
  expect(planted(sent)).toHaveLength(PLANTED.length)
  const inbox = await open.inbox()
  expect(inbox.map(({ eventId }) => eventId).toSorted()).toEqual(provider.events.map(({ id }) => id).toSorted())
  expect(new Set(inbox.map(({ status }) => status))).toEqual(new Set(['completed', 'failed']))
  expect(new Set(open.receivedEvents.map(([name]) => name))).toContain('PaymentFailed')

  const all = await everything()
  for (const table of [
    'multitenancy.billing_inbox',
    'multitenancy.billing_customers',
    'multitenancy.billing_subscriptions',
  ]) {
    expect(all.get(table)).toContain(customerId)
  }
  for (const { eventId } of inbox)
    expect([...all.values()].filter((rows) => rows.includes(eventId)).length).toBeGreaterThan(1)
  for (const [table, rows] of all) expect([table, planted(rows)]).toEqual([table, []])
  expect(planted(JSON.stringify(open.receivedEvents))).toEqual([])
  expect(planted(open.log.join(''))).toEqual([])
})
