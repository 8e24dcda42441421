/** A checkout that is begun before its tenant is deleted, and paid after that: nobody is to pay for a tenant that is gone. */
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

/** Deleted, and all that follows from that is done; then its checkout is paid. */
async function paidLate(): Promise<Subscriber> {
  const tenantId = await open.tenant()
  const { id } = await open.tenancy.billing.checkout(tenantId, {
    priceId: open.prices.pro,
    successUrl: 'https://app.example/paid',
    cancelUrl: 'https://app.example/plans',
  })
  await open.tenancy.tenants.delete(tenantId)
  await worked()
  const { customer, subscription } = open.provider.completeCheckout(id ?? '')
  return { tenantId, customerId: customer as string, subscriptionId: subscription as string }
}

/** As a worker would: processes what was received, and runs each job that cancels. */
async function worked(): Promise<void> {
  await open.process()
  const { rows } = await open.tenancy.kernel.database.sql(
    `delete from multitenancy_jobs.job where name = 'tenantry.CancelSubscriptions' returning data ->> 'customerId' as "customerId"`,
  )
  for (const { customerId } of rows) await open.tenancy.billing.tenantDeletion.cancelAll(customerId)
}

const atProvider = async ({ subscriptionId }: Subscriber) =>
  (await open.tenancy.billing.dependencies.payments.subscription(subscriptionId))?.status
const planOf = async ({ tenantId }: Subscriber) => (await open.tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'

describe('where subscriptions end with their tenant', () => {
  beforeAll(opening('cancel'))
  afterAll(closing)
  beforeEach(() => void open.receivedEvents.splice(0))

  test('it is canceled at the provider as soon as that is told', async () => {
    const payer = await paidLate()
    expect(await atProvider(payer)).toBe('active')
    await open.deliver()
    await worked()
    expect(await atProvider(payer)).toBe('canceled')
    await open.deliverAndProcess()
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ subscription: { status: 'canceled' } })
    expect(namesOf(open.receivedEvents)).toContain('SubscriptionCanceled')
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await planOf(payer)).toBe('free')
  })

  test('it is canceled where nothing of it arrives but what a sync finds', async () => {
    const payer = await paidLate()
    await Array.fromAsync(open.tenancy.billing.sync.run(payer.tenantId))
    await worked()
    expect(await atProvider(payer)).toBe('canceled')
    await open.deliverAndProcess()
  })

  test('a tenant that is back by then keeps it', async () => {
    const payer = await paidLate()
    await open.deliver()
    await open.process()
    await open.tenancy.tenants.restore(payer.tenantId)
    await worked()
    expect(await atProvider(payer)).toBe('active')
    expect(await planOf(payer)).toBe('pro')
  })

  test('a tenant that is purged by then leaves nothing to be paid for', async () => {
    const payer = await paidLate()
    await open.deliver()
    await open.process()
    expect(await open.tenancy.tenants.installation.purge(payer.tenantId)).toBe(true)
    await worked()
    expect(await atProvider(payer)).toBe('canceled')
  })

  test('a tenant that was purged before anything was heard of it leaves nothing to be paid for', async () => {
    const payer = await paidLate()
    expect(await open.tenancy.tenants.installation.purge(payer.tenantId)).toBe(true)
    await open.deliver()
    await worked()
    expect(await atProvider(payer)).toBe('canceled')
  })

  test('a tenant that is back while what it has used is reported keeps it', async () => {
    const payer = await open.subscriber()
    const held = open.provider.faults.hold({ path: '/v1/subscriptions', method: 'GET' })
    await open.tenancy.tenants.delete(payer.tenantId)
    const cancelling = open.tenancy.billing.tenantDeletion.cancelAll(payer.customerId)
    await held.arrived
    await open.tenancy.tenants.restore(payer.tenantId)
    held.release()
    await cancelling
    expect(await atProvider(payer)).toBe('active')
    await worked()
  })
})

describe.each(['detach', 'preserve'] as const)('with %s', (onTenantDelete) => {
  beforeAll(opening(onTenantDelete))
  afterAll(closing)

  test('it is left as it is', async () => {
    const payer = await paidLate()
    await open.deliver()
    await worked()
    expect(await atProvider(payer)).toBe('active')
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
  })
})
