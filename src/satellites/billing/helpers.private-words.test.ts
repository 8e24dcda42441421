/** Tests that messages of the provider and data about payers do not reach callers, jobs or the log. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { type OpenBilling, openBilling } from './billing.fixture.ts'

const checkout = (id: string, of: OpenBilling) =>
  of.call('POST', `/tenants/${id}/billing/checkout`, {
    priceId: of.prices.pro,
    successUrl: 'https://app.example/paid',
    cancelUrl: 'https://app.example/plans',
  })
const portal = (id: string, of: OpenBilling) =>
  of.call('POST', `/tenants/${id}/billing/portal`, { returnUrl: 'https://app.example/account' })

describe('messages of the provider', () => {
  const WORDS = ['Ada Lovelace', 'ada@example.com', 'sk_test_1815', '4242 4242 4242 4242']
  const secretWords = WORDS.join(', ')
  let failure = { status: 500, type: 'api_error' }
  let open: OpenBilling
  const server = createServer((_, response) => {
    const { status, type } = failure
    response.writeHead(status, { 'content-type': 'application/json', 'stripe-should-retry': 'false' })
    const error = { type, message: secretWords, param: secretWords, decline_code: secretWords, doc_url: secretWords }
    response.end(JSON.stringify({ error }))
  })

  beforeAll(async () => {
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const stripe = { endpoint: `http://127.0.0.1:${port}` }
    open = await openBilling(inject('postgresUrl'), { options: { stripe } })
  })
  afterAll(async () => {
    await open.end()
    server.close()
  })

  test.each([
    [400, 'invalid_request_error'],
    [401, 'invalid_request_error'],
    [402, 'card_error'],
    [403, 'invalid_request_error'],
    [404, 'invalid_request_error'],
    [409, 'idempotency_error'],
    [429, 'invalid_request_error'],
    [500, 'api_error'],
    [503, 'unheard_of'],
  ])('of a response with the status %i do not reach callers, jobs or the log', async (status, type) => {
    failure = { status, type }
    open.log.splice(0)
    const { tenancy, provider } = open
    const { id } = await tenancy.tenants.create({ name: 'Payer' })
    const responses = [await checkout(id, open), await portal(id, open)]
    expect(responses.map((one) => one.status).filter((one) => one !== 422 && one !== 503)).toEqual([])
    const customer = provider.customer({ metadata: { tenantId: id } })
    provider.subscribe(customer.id, open.prices.pro)
    await open.deliverAndProcess()
    await tenancy.billing.health.measure()
    const failed: unknown = await tenancy.billing.tenantDeletion.cancelAll(customer.id).catch((thrown) => thrown)
    tenancy.kernel.log.warn({ err: failed }, 'as reported by the job queue')
    await tenancy.billing.customers.map(id, customer.id)
    const usage = uuidv7()
    await tenancy.billing.reportUsage(id, 'calls', 1, { id: usage })
    await tenancy.billing.usage.send(usage)
    const kept = JSON.stringify([
      responses,
      open.log,
      await open.inbox(),
      open.receivedEvents,
      await tenancy.doctor.examine(),
    ])
    expect(WORDS.filter((word) => kept.includes(word))).toEqual([])
    expect(open.log.length).toBeGreaterThan(0)
  })
})

test('the log contains no personal data of a payer', async () => {
  const open = await openBilling(inject('postgresUrl'))
  const { id } = await open.tenancy.tenants.create({ name: 'Payer' })
  const { json } = await checkout(id, open)
  const before = open.log.length
  const session = open.provider.completeCheckout(json.id, {
    name: 'Grace Hopper',
    email: 'grace@example.com',
    phone: '+1 202 555 0134',
    address: { line1: 'Arlington 1' },
    card: { last4: '9876', billingDetails: { name: 'Rear Admiral' } },
  })
  await open.deliverAndProcess()
  open.provider.setPaymentMethod(session.customer as string, 'declines')
  open.provider.faults.respond(402, { times: 1 })
  await portal(id, open)
  await open.call('POST', `/tenants/${id}/billing/cancel`, { atPeriodEnd: false })
  await open.deliverAndProcess()
  expect(open.log.length).toBeGreaterThan(before)
  for (const word of ['Hopper', 'grace@', '202 555', 'Arlington', '9876', 'Admiral'])
    expect(open.log.join()).not.toContain(word)
  await open.end()
})
