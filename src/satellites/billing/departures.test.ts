/** A tenant is deleted, restored, and purged: what becomes of what it pays for, also while the provider is away. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { eventually } from '../../testing/tenancy.ts'
import { namesOf, type OpenBilling, openBilling, type Subscriber } from './billing.fixture.ts'
import type { BillingOptions } from './index.ts'
import { CancelSubscriptions } from './job-types.ts'
import { tables } from './tables.ts'

vi.setConfig({ testTimeout: 60_000 })

const MAX_WAIT_MS = 30_000
const TABLES = [...(tables[0]?.up ?? '').matchAll(/create table (\w+)/g)].map(([, name]) => name as string)

type OnTenantDelete = NonNullable<BillingOptions['onTenantDelete']>

const opened = new Map<OnTenantDelete, OpenBilling>()
/** One for all tests with the same setting. Tenants can be purged as soon as they are deleted. */
const openWith = async (onTenantDelete: OnTenantDelete) => {
  const present = opened.get(onTenantDelete)
  if (present) return present
  const open = await openBilling(inject('postgresUrl'), {
    options: { onTenantDelete, usage: { calls: { meter: 'api_calls' } } },
    config: { tenants: { retentionDays: 0, autoPurge: false } },
  })
  open.provider.meter({ eventName: 'api_calls' })
  opened.set(onTenantDelete, open)
  return open
}
afterAll(() => Promise.all([...opened.values()].map((open) => open.end())))

const statusOf = async ({ tenancy }: OpenBilling, { tenantId }: Subscriber) =>
  (await tenancy.billing.of(tenantId)).subscription?.status
const atProvider = async ({ tenancy }: OpenBilling, { subscriptionId }: Subscriber) =>
  (await tenancy.billing.part.payments.subscription(subscriptionId))?.status
const planOf = async ({ tenancy }: OpenBilling, { tenantId }: Subscriber) =>
  (await tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'
const track = ({ tenancy }: OpenBilling, { tenantId }: Subscriber, amount: number) =>
  tenancy.kernel.store.counters.take(tenantId, [{ name: 'calls', amount, limit: null }])
const sendUsage = async ({ tenancy }: OpenBilling) => {
  await tenancy.billing.windows.close()
  const { rows } = await tenancy.kernel.database.sql('select id from multitenancy.billing_usage where sent_at is null')
  for (const { id } of rows) await tenancy.billing.usage.send(id)
}
/** Events about one of its ids; others of the tenancy go on paying. */
const heardOf = ({ heard }: OpenBilling, payer: Subscriber) =>
  heard.filter(([, event]) => Object.values(payer).some((id) => JSON.stringify(event).includes(id)))
/** Names of tables in which a text still stands. */
const whereStands = async ({ tenancy }: OpenBilling, ...texts: string[]) => {
  const found: string[] = []
  for (const table of TABLES) {
    const { rows } = await tenancy.kernel.database.sql(`select * from multitenancy.${table}`)
    if (texts.some((text) => JSON.stringify(rows).includes(text))) found.push(table)
  }
  return found
}

describe('cancelled with its tenant', () => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith('cancel')
  })
  beforeEach(() => void open.heard.splice(0))

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
  /** @param retryCount as if it had been retried so often */
  const makeDue = async ({ customerId }: Subscriber, retryCount?: number) => {
    await open.tenancy.kernel.database.sql(
      `update multitenancy_jobs.job set start_after = now(), retry_count = coalesce($2, retry_count)
       where name = 'tenantry.CancelSubscriptions' and singleton_key = $1`,
      [customerId, retryCount],
    )
    // A new job of the type wakes its workers; an unknown customer has nothing to cancel.
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

  test('the deletion itself sends no request; the end of the subscription is published when it is received', async () => {
    const payer = await open.subscriber()
    const requests = open.provider.requests.length
    await open.tenancy.tenants.delete(payer.tenantId)
    expect(open.provider.requests).toHaveLength(requests)
    expect(await jobOf(payer)).toMatchObject({ state: 'created' })
    await open.tenancy.billing.departures.cancelAll(payer.customerId)
    await open.settle()
    expect(await statusOf(open, payer)).toBe('canceled')
    expect(namesOf(heardOf(open, payer))).toContain('SubscriptionCanceled')
    expect((await open.inbox()).filter(({ status }) => status === 'failed')).toEqual([])
  })

  test('the job of a tenant that was purged meanwhile stays, and cancels its subscription', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    expect(await open.tenancy.tenants.installation.purge(payer.tenantId)).toBe(true)
    expect(await jobOf(payer)).toMatchObject({ state: 'created' })
    await open.tenancy.billing.departures.cancelAll(payer.customerId)
    expect(await atProvider(open, payer)).toBe('canceled')
  })

  test('a tenant that is back before it was cancelled keeps it', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    await open.tenancy.billing.departures.cancelAll(payer.customerId)
    expect(await atProvider(open, payer)).toBe('active')
    expect(await planOf(open, payer)).toBe('pro')
  })

  test('a tenant that is back afterwards has the plan of whoever pays nothing, and may subscribe again', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.billing.departures.cancelAll(payer.customerId)
    await open.settle()
    expect(await planOf(open, payer)).toBe('pro')
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await planOf(open, payer)).toBe('free')
    const { id } = await open.tenancy.billing.checkout(payer.tenantId, {
      priceId: open.prices.scale,
      successUrl: 'https://app.example/paid',
      cancelUrl: 'https://app.example/plans',
    })
    expect(open.provider.completeCheckout(id ?? '').customer).toBe(payer.customerId)
    await open.settle()
    expect(await planOf(open, payer)).toBe('scale')
  })

  test('a tenant without a subscription keeps the plan that it was given', async () => {
    const tenantId = await open.tenant()
    const jobs = await countJobs()
    await open.tenancy.tenants.setPlan(tenantId, 'scale')
    await open.tenancy.tenants.delete(tenantId)
    await open.tenancy.tenants.restore(tenantId)
    expect((await open.tenancy.tenants.get(tenantId)).metadata.plan).toBe('scale')
    expect(await countJobs()).toBe(jobs)
  })

  test('nothing is to be done where the customer was deleted, or all has ended', async () => {
    const [gone, ended] = [await open.subscriber(), await open.subscriber()]
    open.provider.deleteCustomer(gone.customerId)
    open.provider.cancel(ended.subscriptionId)
    const ends = () => open.provider.requests.filter(({ method }) => method === 'DELETE').length
    const before = ends()
    for (const { tenantId, customerId } of [gone, ended]) {
      await open.tenancy.tenants.delete(tenantId)
      await open.tenancy.billing.departures.cancelAll(customerId)
    }
    expect(ends()).toBe(before)
  })
})

describe('detached from its tenant', () => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith('detach')
  })

  test('a subscription goes on, and what was used until then is paid for', async () => {
    const payer = await open.subscriber()
    await track(open, payer, 4)
    await sendUsage(open)
    await track(open, payer, 3)
    await open.tenancy.tenants.delete(payer.tenantId)
    await sendUsage(open)
    expect(open.provider.usage('api_calls', payer.customerId)).toBe(7)
    expect(await atProvider(open, payer)).toBe('active')
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ customerId: null, unreportedUsage: [] })
  })

  test('a tenant that is back begins with a customer of its own', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    const next = await open.tenancy.billing.ensureCustomer(payer.tenantId)
    expect(next).not.toBe(payer.customerId)
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ customerId: next })
    expect(await atProvider(open, payer)).toBe('active')
  })

  test('a tenant that is back has not what somebody else pays for, whatever is heard of it', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await planOf(open, payer)).toBe('free')
    open.heard.splice(0)
    open.provider.changePrice(payer.subscriptionId, open.prices.scale, 'always_invoice')
    open.provider.setPaymentMethod(payer.customerId, 'declines')
    open.provider.advance({ days: 31, hours: 2 })
    await open.settle()
    expect(await planOf(open, payer)).toBe('free')
    expect(heardOf(open, payer)).toEqual([])
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ subscription: null, dunning: null })
  })

  test('what it owed is nothing to a tenant that is back', async () => {
    const payer = await open.subscriber()
    open.provider.setPaymentMethod(payer.customerId, 'declines')
    open.provider.advance({ days: 31, hours: 2 })
    await open.settle()
    expect((await open.tenancy.billing.of(payer.tenantId)).dunning?.state).toBe('retrying')
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ subscription: null, dunning: null })
    expect((await open.tenancy.tenants.get(payer.tenantId)).status).toBe('active')
  })

  test('what it pays for next counts', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    await open.tenancy.tenants.restore(payer.tenantId)
    const { id } = await open.tenancy.billing.checkout(payer.tenantId, {
      priceId: open.prices.scale,
      successUrl: 'https://app.example/paid',
      cancelUrl: 'https://app.example/plans',
    })
    open.provider.completeCheckout(id ?? '')
    open.provider.cancel(payer.subscriptionId)
    await open.settle()
    expect(await planOf(open, payer)).toBe('scale')
    expect(await statusOf(open, payer)).toBe('active')
  })
})

describe('left as it is', () => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith('preserve')
  })

  test('a subscription counts again for a tenant that is back, as it is by then', async () => {
    const payer = await open.subscriber()
    await open.tenancy.tenants.delete(payer.tenantId)
    open.provider.changePrice(payer.subscriptionId, open.prices.scale)
    await open.settle()
    expect(await planOf(open, payer)).toBe('pro')
    await open.tenancy.tenants.restore(payer.tenantId)
    expect(await planOf(open, payer)).toBe('scale')
    expect(await open.tenancy.billing.of(payer.tenantId)).toMatchObject({ customerId: payer.customerId })
  })
})

describe.each(['cancel', 'detach', 'preserve'] as const)('a purge, with %s', (onTenantDelete) => {
  let open: OpenBilling

  beforeAll(async () => {
    open = await openWith(onTenantDelete)
  })

  test('leaves nothing of the tenant, and what is heard of it afterwards has no effect', async () => {
    const payer = await open.subscriber()
    await track(open, payer, 5)
    await open.tenancy.billing.windows.close()
    open.provider.setPaymentMethod(payer.customerId, 'declines')
    open.provider.advance({ days: 31, hours: 2 })
    await open.settle()
    expect(new Set(await whereStands(open, payer.tenantId, payer.customerId))).toEqual(
      new Set(TABLES.filter((table) => !['billing_health', 'billing_metered'].includes(table))),
    )
    await open.tenancy.tenants.delete(payer.tenantId)
    expect(await open.tenancy.tenants.installation.purge(payer.tenantId)).toBe(true)
    expect(await whereStands(open, payer.tenantId, payer.customerId)).toEqual([])
    expect(open.log.join()).toContain('usage that was never reported goes with the purge of its tenant')

    await open.tenancy.billing.departures.cancelAll(payer.customerId)
    open.heard.splice(0)
    await open.settle()
    open.provider.deleteCustomer(payer.customerId)
    await open.settle()
    expect((await open.inbox()).filter(({ status }) => status !== 'completed')).toEqual([])
    expect(heardOf(open, payer)).toEqual([])
    const left = await whereStands(open, payer.tenantId, payer.customerId)
    expect(left.filter((table) => table !== 'billing_inbox')).toEqual([])
    await sendUsage(open)
    await expect(open.tenancy.billing.of(payer.tenantId)).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    expect(await Array.fromAsync(open.tenancy.billing.sync.run(payer.tenantId))).toEqual([])
  })

  test('whoever is at work for the tenant meanwhile writes nothing after it', async () => {
    const payer = await open.subscriber()
    open.provider.changePrice(payer.subscriptionId, open.prices.scale)
    await open.deliver()
    await track(open, payer, 5)
    const held = open.provider.faults.hold({ path: `/v1/subscriptions/${payer.subscriptionId}` })
    const processing = open.process()
    await held.arrived
    await open.tenancy.tenants.delete(payer.tenantId)
    const purging = open.tenancy.tenants.installation.purge(payer.tenantId)
    const closing = open.tenancy.billing.windows.close()
    await Promise.all([purging, closing])
    held.release()
    await processing
    const left = await whereStands(open, payer.tenantId, payer.customerId)
    expect(left.filter((table) => table !== 'billing_inbox')).toEqual([])
  })
})
