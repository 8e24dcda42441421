/**
 * Tests processing with a slow provider and many events: no blocking between tenants, and no older state over a newer
 * one.
 */
import type Stripe from 'stripe'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { type OpenBilling, openBilling, type Subscriber } from '../billing.fixture.ts'
import { type Debtors, debtorsOf } from '../dunning/dunning.fixture.ts'

const WAIT_TIMEOUT_MS = 20_000

let open: OpenBilling & Debtors
beforeAll(async () => {
  const opened = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 1, graceDays: 7, action: 'suspend' } },
    provider: { afterRetries: 'past_due', retryDays: [60] },
  })
  open = Object.assign(opened, debtorsOf(opened))
})
afterEach(async () => {
  open.provider.faults.clear()
  await open.clear()
})
afterAll(() => open.end())

const lastOf = (type: Stripe.Event.Type) => open.provider.events.findLast((event) => event.type === type)?.id as string
const process = (eventId: string) => open.tenancy.billing.processing.process(eventId, true)
const rowsOf = async (query: string, ...values: unknown[]) =>
  (await open.tenancy.kernel.database.sql(query, values)).rows
const tenantsOfJobs = async (...eventIds: string[]) => {
  const rows = await rowsOf(
    `select distinct group_id as "tenantId" from multitenancy_jobs.job
     where name = 'tenantry.ProcessProviderEvent' and singleton_key = any($1)`,
    eventIds,
  )
  return rows.map(({ tenantId }) => tenantId)
}
const changed = ({ subscriptionId }: Subscriber, price: 'pro' | 'scale') => {
  open.provider.changePrice(subscriptionId, open.prices[price])
  return lastOf('customer.subscription.updated')
}
const waitingOf = async ({ customerId }: Subscriber): Promise<number> =>
  (await rowsOf(`select from multitenancy.billing_inbox where customer_id = $1 and status = 'waiting'`, customerId))
    .length
/** Waits until no session is idle in a transaction. */
const noOpenTransaction = () =>
  eventually(async () => {
    const idle = `select query from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`
    expect(await rowsOf(idle)).toEqual([])
  })

test('the events of one customer do not delay those of others', async () => {
  const [noisy, idle] = [await open.payer(), await open.payer()]
  const first = open.provider.faults.hold({ path: `/v1/subscriptions/${noisy.subscriptionId}` })
  changed(noisy, 'scale')
  await open.deliver()
  const worker = await open.open({ role: 'worker' })
  await first.arrived
  for (let times = 0; times < 6; times++) changed(noisy, times % 2 ? 'scale' : 'pro')
  await open.deliver()
  changed(idle, 'scale')
  await open.deliver()
  await eventually(async () => expect(await open.statusAndPlan(idle.tenantId)).toBe('active scale'), WAIT_TIMEOUT_MS)
  expect(await waitingOf(noisy)).toBe(7)
  first.release()
  await eventually(async () => expect(await waitingOf(noisy)).toBe(0), WAIT_TIMEOUT_MS)
  expect(await open.statusAndPlan(noisy.tenantId)).toBe('active scale')
  await worker.stop()
})

test('a job carries the tenant if the tenant of the event is known', async () => {
  const { id } = open.provider.customer()
  open.provider.subscribe(id, open.prices.pro)
  const unknown = lastOf('customer.subscription.created')
  const payer = await open.payer()
  const known = changed(payer, 'scale')
  await open.deliver()
  expect(await tenantsOfJobs(known)).toEqual([payer.tenantId])
  expect(await tenantsOfJobs(unknown)).toEqual([null])
  await open.process()
  await rowsOf('delete from multitenancy_jobs.job where singleton_key = $1', known)
  await open.tenancy.billing.inbox.replay(known)
  expect(await tenantsOfJobs(known)).toEqual([payer.tenantId])
  await open.process()
})

test('processing holds no transaction during a request to the provider', async () => {
  const payer = await open.payer()
  const event = changed(payer, 'scale')
  await open.deliver()
  const held = open.provider.faults.hold({ path: `/v1/subscriptions/${payer.subscriptionId}` })
  const processing = process(event)
  await held.arrived
  await noOpenTransaction()
  held.release()
  await processing
  expect(await open.statusAndPlan(payer.tenantId)).toBe('active scale')
})

test('a response that is older than the stored state does not replace it', async () => {
  const payer = await open.payer()
  const earlier = changed(payer, 'scale')
  const old = open.provider.faults.hold({ path: `/v1/subscriptions/${payer.subscriptionId}` })
  await open.deliver()
  const processing = process(earlier)
  await old.arrived
  open.provider.cancel(payer.subscriptionId)
  const later = lastOf('customer.subscription.deleted')
  await open.deliver()
  await process(later)
  expect(await open.statusAndPlan(payer.tenantId)).toBe('active free')
  old.release()
  await processing
  expect(await open.statusAndPlan(payer.tenantId)).toBe('active free')
  const [kept] = await rowsOf(
    'select status from multitenancy.billing_subscriptions where id = $1',
    payer.subscriptionId,
  )
  expect(kept).toEqual({ status: 'canceled' })
})

test('a payment during the request for the invoice prevents a new dunning case', async () => {
  const payer = await open.payer()
  open.provider.setPaymentMethod(payer.customerId, 'declines')
  open.provider.advance({ days: 31, hours: 2 })
  const failure = lastOf('invoice.payment_failed')
  const unpaid = open.provider.faults.hold({ path: '/v1/invoices' })
  await open.deliver()
  const processing = process(failure)
  await unpaid.arrived
  open.provider.payInvoice(open.invoices(payer.subscriptionId)[0]?.id as string)
  await open.deliver()
  await process(lastOf('invoice.payment_succeeded'))
  unpaid.release()
  await processing
  expect(await open.cases(payer.tenantId)).toEqual(['recovered'])
})

test('a payment during the request before a suspension prevents the suspension', async () => {
  const debtor = await open.debtor()
  open.provider.advance({ days: 7 })
  const unpaid = open.provider.faults.hold({ path: '/v1/invoices' })
  const sweeping = open.tenancy.billing.dunning.sweep()
  await unpaid.arrived
  await noOpenTransaction()
  open.provider.payInvoice(open.invoices(debtor.subscriptionId)[0]?.id as string)
  await open.deliverAndProcess()
  unpaid.release()
  await sweeping
  expect(await open.statusAndPlan(debtor.tenantId)).toBe('active pro')
  expect(await open.cases(debtor.tenantId)).toEqual(['recovered'])
  expect(open.receivedNamesOf(debtor.tenantId)).not.toContain('TenantSuspended')
})
