/** What goes wrong on the way, with the client's own retries; and events on their way to a receiver. */
import Stripe from 'stripe'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startReceiver } from '../receiver.ts'
import { duplicated, type Provider, shuffled, startProvider } from './provider.ts'

const secret = 'whsec_of_a_test'

let provider: Provider

beforeEach(async () => {
  provider = await startProvider()
})
afterEach(() => provider.close())

const client = (maxNetworkRetries: number, timeout = 10_000) =>
  new Stripe(provider.apiKey, { ...provider.clientOptions, maxNetworkRetries, timeout })

describe('faults', () => {
  test('an error of the provider is tried again by the client, with the same key', async () => {
    provider.faults.answer(500, { times: 2, path: '/v1/customers' })
    await client(2).customers.create({ name: 'Ada' })
    expect(provider.requests).toHaveLength(3)
    expect(new Set(provider.requests.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1)
    expect(provider.events.map(({ type }) => type)).toEqual(['customer.created'])
    expect(provider.faults.counts.answered).toBe(2)
  })

  test('too many requests are the business of the caller', async () => {
    provider.faults.answer(429, { times: 1, headers: { 'retry-after': '7' } })
    const error = await client(3)
      .balance.retrieve()
      .catch((thrown) => thrown)
    expect(error).toBeInstanceOf(Stripe.errors.StripeRateLimitError)
    expect(error).toMatchObject({ code: 'rate_limit', headers: { 'retry-after': '7' } })
    await client(0).balance.retrieve()
  })

  test('a connection that is cut after the work was done counts once', async () => {
    provider.faults.cut({ times: 2, method: 'POST' })
    const { id } = await client(2).customers.create({ name: 'Ada' })
    expect(provider.events.map(({ data }) => (data.object as Stripe.Customer).id)).toEqual([id])
    expect(provider.faults.counts.cut).toBe(2)
  })

  test('an answer that is too late is given up by the client, and the work is done', async () => {
    provider.faults.slow(60_000, { path: '/v1/customers' })
    const error = await client(0, 1000)
      .customers.create({ name: 'Ada' })
      .catch((thrown) => thrown)
    expect(error).toBeInstanceOf(Stripe.errors.StripeConnectionError)
    expect(provider.events.map(({ type }) => type)).toEqual(['customer.created'])
    expect(provider.faults.counts.slowed).toBe(1)
    provider.faults.clear()
    expect((await client(0).customers.list()).data).toHaveLength(1)
  })

  test('down, nobody answers; up again, everything is as it was', async () => {
    const { id } = provider.customer()
    await provider.down()
    const error = await client(0)
      .customers.retrieve(id)
      .catch((thrown) => thrown)
    expect(error).toBeInstanceOf(Stripe.errors.StripeConnectionError)
    await provider.up()
    expect((await client(0).customers.retrieve(id)).id).toBe(id)
  })
})

describe('events', () => {
  test('are snapshots of their time, and those of one second have one time', () => {
    const { id } = provider.customer({ name: 'Ada' })
    provider.deleteCustomer(id)
    const [created, , updated, deleted] = provider.events
    expect(created).toMatchObject({ type: 'customer.created', api_version: Stripe.API_VERSION, livemode: false })
    expect(created?.data.object).toMatchObject({ invoice_settings: { default_payment_method: null } })
    expect(updated?.data.previous_attributes).toEqual({ invoice_settings: { default_payment_method: null } })
    expect(deleted).toMatchObject({ type: 'customer.deleted', request: { id: null, idempotency_key: null } })
    expect(new Set(provider.events.map((event) => event.created)).size).toBe(1)
    expect(new Set(provider.events.map((event) => event.id)).size).toBe(provider.events.length)
  })

  test('are signed as the client checks it', () => {
    provider.customer()
    const event = provider.emit('payout.paid', { id: 'po_1', object: 'payout' })
    const { body, headers } = provider.signed(event, { secret })
    const { webhooks } = client(0)
    expect(webhooks.constructEvent(body, headers['stripe-signature'], secret)).toEqual(event)
    expect(() => webhooks.constructEvent(body, headers['stripe-signature'], 'whsec_other')).toThrow('signature')
    const old = provider.signed(event, { secret, at: new Date(Date.now() - 301_000) })
    expect(() => webhooks.constructEvent(old.body, old.headers['stripe-signature'], secret)).toThrow('Timestamp')
  })

  test('are live when they are', () => {
    provider.setLivemode(true)
    expect(provider.emit('payout.paid', { object: 'payout' }).livemode).toBe(true)
  })

  test('are delivered one by one, also twice and in another order', async () => {
    for (let number = 0; number < 5; number += 1) provider.customer({ card: null })
    const ids = provider.events.map(({ id }) => id)
    const receiver = await startReceiver(({ body }) => ({ status: body.includes(ids[1] ?? '') ? 503 : 200 }))
    const sent = shuffled(duplicated(provider.events), 7)
    const statuses = await provider.deliver(`${receiver.url}/webhooks/stripe`, sent, { secret })
    expect(receiver.received.map(({ body }) => JSON.parse(body).id)).toEqual(sent.map(({ id }) => id))
    expect(statuses).toEqual(sent.map(({ id }) => (id === ids[1] ? 503 : 200)))
    expect(sent.map(({ id }) => id)).not.toEqual(duplicated(ids))
    expect(sent.map(({ id }) => id).sort()).toEqual(duplicated(ids).sort())
    expect(shuffled(duplicated(provider.events), 7)).toEqual(sent)
    await receiver.close()
  })
})
