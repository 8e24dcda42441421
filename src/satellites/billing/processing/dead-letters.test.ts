/**
 * Tests dead letters: one per failed event, with its code, immediately or after the last attempt, without the
 * provider's message.
 */
import type Stripe from 'stripe'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from '../billing.fixture.ts'
import { type BillingErrorCode, ERROR_CODES } from '../model/provider.ts'

let open: OpenBilling
let isDown = false
beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'))
})
afterAll(() => open.end())
afterEach(async () => {
  open.provider.faults.clear()
  if (isDown) await open.provider.up()
  isDown = false
  await open.tenancy.kernel.database.sql(
    'alter table multitenancy.billing_subscriptions drop constraint if exists nothing_more',
  )
})

/** An event whose processing fails, and its tenant if it is known. */
interface FailingEvent {
  readonly eventId: string
  readonly tenantId: string | null
}

interface Row {
  readonly code: BillingErrorCode
  readonly why: string
  readonly isPassing?: true
  readonly makeFailing: () => Promise<FailingEvent>
}

const lastOf = <T extends object>(type: Stripe.Event.Type) => {
  const event = open.provider.events.findLast((one) => one.type === type)
  if (!event) throw new Error(`the provider has no event ${type}`)
  return { eventId: event.id, object: event.data.object as unknown as T }
}

/** A subscription change whose request to the provider fails. */
const failingRead = (fail: () => unknown) => async (): Promise<FailingEvent> => {
  const { tenantId, subscriptionId } = await open.subscriber()
  open.provider.changePrice(subscriptionId, open.prices.scale)
  await fail()
  return { eventId: lastOf('customer.subscription.updated').eventId, tenantId }
}
const failingResponse = (status: number) => failingRead(() => open.provider.faults.respond(status))

const ROWS: readonly Row[] = [
  {
    code: 'tenant_not_resolvable',
    why: 'a customer without a tenant',
    isPassing: true,
    async makeFailing() {
      open.provider.subscribe(open.provider.customer().id, open.prices.pro)
      return { eventId: lastOf('customer.subscription.created').eventId, tenantId: null }
    },
  },
  {
    code: 'customer_not_found',
    why: 'an invoice without a customer',
    async makeFailing() {
      await open.subscriber()
      const { object } = lastOf('invoice.payment_succeeded')
      const { id } = open.provider.emit('invoice.payment_succeeded', { ...object, customer: null, parent: null })
      return { eventId: id, tenantId: null }
    },
  },
  { code: 'provider_unavailable', why: 'an error of the provider', isPassing: true, makeFailing: failingResponse(500) },
  {
    code: 'provider_unavailable',
    why: 'a conflict at the provider',
    isPassing: true,
    makeFailing: failingResponse(409),
  },
  {
    code: 'provider_unavailable',
    why: 'an unreachable provider',
    isPassing: true,
    makeFailing: failingRead(async () => {
      await open.provider.down()
      isDown = true
    }),
  },
  { code: 'provider_rate_limited', why: 'too many requests', isPassing: true, makeFailing: failingResponse(429) },
  { code: 'provider_rejected', why: 'a rejection', makeFailing: failingResponse(400) },
  { code: 'authentication_failed', why: 'an invalid key', makeFailing: failingResponse(401) },
  { code: 'authentication_failed', why: 'a key without the permission', makeFailing: failingResponse(403) },
  {
    code: 'payload_invalid',
    why: 'a subscription status that this release does not know',
    async makeFailing() {
      const { tenantId } = await open.subscriber()
      const { object } = lastOf('customer.subscription.created')
      return {
        eventId: open.provider.emit('customer.subscription.updated', { ...object, status: 'frozen' }).id,
        tenantId,
      }
    },
  },
  {
    code: 'unhandled',
    why: 'a database that rejects the write',
    isPassing: true,
    makeFailing: failingRead(() =>
      open.tenancy.kernel.database.sql(
        'alter table multitenancy.billing_subscriptions add constraint nothing_more check (false) not valid',
      ),
    ),
  },
]

/**
 * No event fails with these: the subscription of the event replaces a missing one, and an unmapped price has the
 * default plan.
 */
const NEVER: readonly BillingErrorCode[] = ['subscription_not_found', 'plan_unmapped']

test('the table of dead letters contains every code that an event can fail with', () => {
  const here = new Set<string>(ROWS.map(({ code }) => code))
  expect(ERROR_CODES.filter((code) => !here.has(code))).toEqual(NEVER)
})

const process = (eventId: string, isLast: boolean) => open.tenancy.billing.processing.process(eventId, isLast)
const rowOf = async (eventId: string) => (await open.inbox()).find((row) => row.eventId === eventId)
const lettersOf = (eventId: string) =>
  open.receivedEvents.filter(([name, payload]) => name === 'BillingEventDeadLettered' && payload.eventId === eventId)

test.each(ROWS)('$code: $why', async ({ code, isPassing, makeFailing }) => {
  const { eventId, tenantId } = await makeFailing()
  await open.deliver()
  if (isPassing) {
    await expect(process(eventId, false)).rejects.toThrow()
    expect(await rowOf(eventId)).toMatchObject({ status: 'waiting', errorCode: code, attempts: 1 })
    expect(lettersOf(eventId)).toEqual([])
  }
  await process(eventId, isPassing ?? false)
  expect(await rowOf(eventId)).toMatchObject({ status: 'failed', errorCode: code, attempts: isPassing ? 2 : 1 })
  const letter = { tenantId, eventId, errorCode: code }
  const envelope = { id: expect.any(String), occurredAt: expect.any(String), requestId: null }
  expect(lettersOf(eventId)).toEqual([['BillingEventDeadLettered', { ...envelope, ...letter }]])

  await process(eventId, true)
  expect(lettersOf(eventId)).toHaveLength(1)
  const { rows } = await open.tenancy.kernel.database.sql(
    'select * from multitenancy.billing_inbox where event_id = $1',
    [eventId],
  )
  expect(JSON.stringify(rows)).not.toMatch(/as requested by the test|on the side of the provider|nothing_more/)
})

test('a failed replay publishes another dead letter, and a successful replay does not', async () => {
  const { eventId } = await failingResponse(400)()
  await open.deliver()
  await process(eventId, true)
  await open.tenancy.billing.inbox.replay(eventId)
  expect(await rowOf(eventId)).toMatchObject({ status: 'waiting', errorCode: null, attempts: 0 })
  await process(eventId, true)
  expect(lettersOf(eventId)).toHaveLength(2)
  open.provider.faults.clear()
  await open.tenancy.billing.inbox.replay(eventId)
  await process(eventId, true)
  expect(await rowOf(eventId)).toMatchObject({ status: 'completed', errorCode: null })
  expect(lettersOf(eventId)).toHaveLength(2)
})

test('an event with an invalid payload does not block other events of a subscription that the provider has forgotten', async () => {
  const { subscriptionId } = await open.subscriber()
  const { object } = lastOf('customer.subscription.created')
  const unreadable = open.provider.emit('customer.subscription.updated', { ...object, status: 'frozen' })
  open.provider.changePrice(subscriptionId, open.prices.scale)
  const { eventId } = lastOf('customer.subscription.updated')
  open.provider.forget(subscriptionId)
  await open.deliver()
  await process(eventId, false)
  expect(await rowOf(eventId)).toMatchObject({ status: 'completed', errorCode: null })
  expect(await rowOf(unreadable.id)).toMatchObject({ status: 'waiting' })
})
