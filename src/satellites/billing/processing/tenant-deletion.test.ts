/** Tests deleted tenants whose subscriptions are cancelled, also while the provider is unavailable. */
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { namesOf, type OpenBilling, type Subscriber } from '../billing.fixture.ts'
import { CancelSubscriptions } from '../model/job-types.ts'
import { atProvider, openWith, planOf, receivedOf, statusOf } from './tenant-deletion.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const MAX_WAIT_MS = 30_000

describe('tenant deletion with onTenantDelete: cancel', () => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith('cancel')
  })
  afterAll(() => open.end())
  beforeEach(() => void open.receivedEvents.splice(0))

  const jobOf = async ({ customerId }: Subscriber) => {
    const { rows } = await open.tenancy.kernel.database.sql(
      `select state, retry_count as "retryCount", retry_limit as "retryLimit",
         extract(epoch from start_after - now())::float8 as "dueInSeconds"
       from multitenancy_jobs.job
       where name = 'tenantry.CancelSubscriptions' and singleton_key = $1 and state in ('created', 'retry')`,
      [customerId],
    )
    return rows[0]
  }
  /** @param retryCount number of retries to simulate */
  const makeDue = async ({ customerId }: Subscriber, retryCount?: number) => {
    await open.tenancy.kernel.database.sql(
      `update multitenancy_jobs.job set start_after = now(), retry_count = coalesce($2, retry_count)
       where name = 'tenantry.CancelSubscriptions' and singleton_key = $1`,
      [customerId, retryCount],
    )
    // A new job wakes the workers. Its customer does not exist, so it has no effect.
    await open.tenancy.kernel.jobs.send(CancelSubscriptions, { customerId: 'cus_unknown' }, { key: 'cus_unknown' })
  }
  const countJobs = async () => {
    const { rows } = await open.tenancy.kernel.database.sql(
      `select count(*)::int as count from multitenancy_jobs.job where name = 'tenantry.CancelSubscriptions'`,
    )
    return rows[0].count
  }
  const canceled = (payer: Subscriber) =>
    eventually(async () => expect(await atProvider(open, payer)).toBe('canceled'), MAX_WAIT_MS)

  test('a worker cancels the subscription of a deleted tenant, and retries for a week while the provider is down', async () => {
    const [payer, other] = [await open.subscriber(), await open.subscriber()]
    const worker = await open.open({ role: 'worker' })
    await open.tenancy.tenants.delete(payer.tenantId)
    await canceled(payer)

    await open.provider.down()
    expect((await open.tenancy.tenants.delete(other.tenantId)).changed).toBe(true)
    await eventually(async () => expect(await jobOf(other)).toMatchObject({ state: 'retry' }), MAX_WAIT_MS)
    await makeDue(other, 30)
    await eventually(async () => expect(await jobOf(other)).toMatchObject({ retryCount: 31 }), MAX_WAIT_MS)
    const { dueInSeconds, retryLimit } = await jobOf(other)
    expect(dueInSeconds).toBeGreaterThan(1_700)
    expect(dueInSeconds).toBeLessThanOrEqual(3_600)
    expect(retryLimit / 24).toBeGreaterThan(7)
    await open.provider.up()
    expect(await atProvider(open, other)).toBe('active')
    await makeDue(other)
    await canceled(other)
    await worker.stop()
  })

  test('the deletion sends no request, and the end of the subscription is published when its event is received', async () => {
    const payer = await open.subscriber()
    const requests = open.provider.requests.length
    await open.tenancy.tenants.delete(payer.tenantId)
    expect(open.provider.requests).toHaveLength(requests)
    expect(await jobOf(payer)).toMatchObject({ state: 'created' })
    await open.tenancy.billing.tenantDeletion.cancelAll(payer.customerId)
    await open.deliverAndProcess()
    expect(await statusOf(open, payer)).toBe('canceled')
    expect(namesOf(receivedOf(open, payer))).toContain('SubscriptionCanceled')
    expect((await open.inbox()).filter(({ status }) => status === 'failed')).toEqual([])
  })

  test('the cancellation job survives the purge of its tenant', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    expect(await open.tenancy.tenants.installation.purge(payer.tenantId)).toBe(true)
    expect(await jobOf(payer)).toMatchObject({ state: 'created' })
    await open.tenancy.billing.tenantDeletion.cancelAll(payer.customerId)
    expect(await atProvider(open, payer)).toBe('canceled')
  })

  test('a tenant that is restored before the cancellation keeps its subscription', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    await open.tenancy.billing.tenantDeletion.cancelAll(payer.customerId)
    expect(await atProvider(open, payer)).toBe('active')
    expect(await planOf(open, payer)).toBe('pro')
  })

  test('a tenant that is restored after the cancellation has the default plan and may subscribe again', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.billing.tenantDeletion.cancelAll(payer.customerId)
    await open.deliverAndProcess()
    expect(await planOf(open, payer)).toBe('pro')
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await planOf(open, payer)).toBe('free')
    const { id } = await open.tenancy.billing.checkout(payer.tenantId, {
      priceId: open.prices.scale,
      successUrl: 'https://app.example/paid',
      cancelUrl: 'https://app.example/plans',
    })
    expect(open.provider.completeCheckout(id ?? '').customer).toBe(payer.customerId)
    await open.deliverAndProcess()
    expect(await planOf(open, payer)).toBe('scale')
  })

  test('a tenant without a subscription keeps its assigned plan', async () => {
    const tenantId = await open.tenant()
    const jobs = await countJobs()
    await open.tenancy.tenants.setPlan(tenantId, 'scale')
    await open.tenancy.tenants.delete(tenantId)
    await open.tenancy.tenants.restore(tenantId)
    expect((await open.tenancy.tenants.get(tenantId)).metadata.plan).toBe('scale')
    expect(await countJobs()).toBe(jobs)
  })

  test('the cancellation does nothing if the customer was deleted or all subscriptions have ended', async () => {
    const [gone, ended] = [await open.subscriber(), await open.subscriber()]
    open.provider.deleteCustomer(gone.customerId)
    open.provider.cancel(ended.subscriptionId)
    const ends = () => open.provider.requests.filter(({ method }) => method === 'DELETE').length
    const before = ends()
    for (const { tenantId, customerId } of [gone, ended]) {
      await open.tenancy.tenants.delete(tenantId)
      await open.tenancy.billing.tenantDeletion.cancelAll(customerId)
    }
    expect(ends()).toBe(before)
  })
})
