/** Tests checkouts that are started before their tenant is deleted and paid afterwards. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { namesOf, type OpenBilling, openBilling, type Subscriber } from '../billing.fixture.ts'
import type { BillingOptions } from '../index.ts'

let open: OpenBilling
const opening = (onTenantDelete: NonNullable<BillingOptions['onTenantDelete']>) => async () => {
  open = await openBilling(inject('postgresUrl'), {
    options: { onTenantDelete },
    config: { tenants: { retentionDays: 0, autoPurge: false } },
  })
}
const closing = () => open.end()

/** Deletes a tenant with an open checkout, runs the jobs of the deletion, and completes the checkout. */
async function payLateCheckout(): Promise<Subscriber> {
  const tenantId = await open.tenant()
  const { id } = await open.tenancy.billing.checkout(tenantId, {
    priceId: open.prices.pro,
    successUrl: 'https://app.example/paid',
    cancelUrl: 'https://app.example/plans',
  })
  await open.tenancy.tenants.delete(tenantId)
  await runJobs()
  const { customer, subscription } = open.provider.completeCheckout(id ?? '')
  return { tenantId, customerId: customer as string, subscriptionId: subscription as string }
}

/** Processes received events and runs all jobs that cancel subscriptions, as a worker does. */
async function runJobs(): Promise<void> {
  await open.process()
  const { rows } = await open.tenancy.kernel.database.sql(
    `delete from multitenancy_jobs.job where name = 'tenantry.CancelSubscriptions' returning data ->> 'customerId' as "customerId"`,
  )
  for (const { customerId } of rows) await open.tenancy.billing.tenantDeletion.cancelAll(customerId)
}

const atProvider = async ({ subscriptionId }: Subscriber) =>
  (await open.tenancy.billing.dependencies.payments.subscription(subscriptionId))?.status
const planOf = async ({ tenantId }: Subscriber) => (await open.tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'

describe('late checkout with onTenantDelete: cancel', () => {
  beforeAll(opening('cancel'))
  afterAll(closing)
  beforeEach(() => void open.receivedEvents.splice(0))

  test('the subscription is cancelled at the provider when the checkout is received', async () => {
    const payer = await payLateCheckout()
    expect(await atProvider(payer)).toBe('active')
    await open.deliver()
    await runJobs()
    expect(await atProvider(payer)).toBe('canceled')
    await open.deliverAndProcess()
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ subscription: { status: 'canceled' } })
    expect(namesOf(open.receivedEvents)).toContain('SubscriptionCanceled')
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await planOf(payer)).toBe('free')
  })

  test('the subscription is cancelled when only a sync finds it', async () => {
    const payer = await payLateCheckout()
    await Array.fromAsync(open.tenancy.billing.sync.run(payer.tenantId))
    await runJobs()
    expect(await atProvider(payer)).toBe('canceled')
    await open.deliverAndProcess()
  })

  test('a tenant that is restored before the cancellation keeps the subscription', async () => {
    const payer = await payLateCheckout()
    await open.deliver()
    await open.process()
    await open.tenancy.tenants.restore(payer.tenantId)
    await runJobs()
    expect(await atProvider(payer)).toBe('active')
    expect(await planOf(payer)).toBe('pro')
  })

  test('the subscription of a tenant that is purged after the receipt is cancelled', async () => {
    const payer = await payLateCheckout()
    await open.deliver()
    await open.process()
    expect(await open.tenancy.tenants.installation.purge(payer.tenantId)).toBe(true)
    await runJobs()
    expect(await atProvider(payer)).toBe('canceled')
  })

  test('the subscription of a tenant that is purged before the receipt is cancelled', async () => {
    const payer = await payLateCheckout()
    expect(await open.tenancy.tenants.installation.purge(payer.tenantId)).toBe(true)
    await open.deliver()
    await runJobs()
    expect(await atProvider(payer)).toBe('canceled')
  })

  test('a tenant that is restored during the usage report of the cancellation keeps its subscription', async () => {
    const payer = await open.subscriber()
    const held = open.provider.faults.hold({ path: '/v1/subscriptions', method: 'GET' })
    await open.tenancy.tenants.delete(payer.tenantId)
    const cancelling = open.tenancy.billing.tenantDeletion.cancelAll(payer.customerId)
    await held.arrived
    await open.tenancy.tenants.restore(payer.tenantId)
    held.release()
    await cancelling
    expect(await atProvider(payer)).toBe('active')
    await runJobs()
  })
})

describe.each(['detach', 'preserve'] as const)('with %s', (onTenantDelete) => {
  beforeAll(opening(onTenantDelete))
  afterAll(closing)

  test('the subscription of a late checkout continues', async () => {
    const payer = await payLateCheckout()
    await open.deliver()
    await runJobs()
    expect(await atProvider(payer)).toBe('active')
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
  })
})
