/**
 * Tests a restore of the backoffice from a dump with an unchanged store: usage reported since the dump is not reported
 * again.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Metered, openMetered } from './usage.fixture.ts'

const TABLES = ['billing_usage', 'billing_usage_watermarks', 'billing_customers']

describe.each(['postgres', 'redis'] as const)('with counters in the store %s', (store) => {
  let open: Metered

  beforeAll(async () => {
    open = await openMetered(store)
  })
  afterAll(() => open.end())

  const sql = (text: string) => open.tenancy.kernel.database.sql(text)
  const track = (tenantId: string, amount: number) => open.tenancy.quotas.track(tenantId, 'calls', amount)
  const dump = async () => {
    for (const table of TABLES) await sql(`create table dumped_${table} as select * from multitenancy.${table}`)
  }
  const restoreDump = async () => {
    for (const table of TABLES) {
      await sql(`delete from multitenancy.${table}`)
      await sql(`insert into multitenancy.${table} select * from dumped_${table}`)
    }
  }

  test('usage counts once after a restore, and unsent batches of the dump are held', async () => {
    const [payer, later] = [await open.payer(), await open.tenant()]
    await track(payer.tenantId, 5)
    await open.report()
    open.provider.advance({ seconds: 1 })
    await track(payer.tenantId, 7)
    await open.tenancy.billing.windows.close()
    await dump()

    open.provider.advance({ seconds: 2 * 3_600 })
    await track(payer.tenantId, 11)
    await track(later, 13)
    const customerId = await open.tenancy.billing.ensureCustomer(later)
    await open.report()
    const counted = () => [open.counted(payer.customerId), open.counted(customerId)]
    expect(counted()).toEqual([23, 13])

    open.toTomorrow()
    await restoreDump()
    await open.tenancy.tenants.reconcileAfterRestore()
    await open.tenancy.billing.usage.resend()
    await open.report()
    expect(counted()).toEqual([23, 13])
    expect(await open.batches(payer.tenantId)).toMatchObject([
      { quantity: 5, sentAt: expect.any(Date), heldAt: null },
      { quantity: 7, sentAt: null, nextAttemptAt: null, heldAt: open.provider.now() },
    ])
    const { checks } = await open.tenancy.doctor.examine()
    expect(checks.filter(({ name }) => name === 'billing.usage')).toMatchObject([
      { code: 'billing.usage-unclear', tenantId: payer.tenantId, message: expect.stringMatching(/^7 of "api_calls"/) },
    ])

    // As billing:backfill does.
    await open.tenancy.transaction(() => open.tenancy.billing.customers.map(later, customerId))
    await track(payer.tenantId, 1)
    await track(later, 2)
    await open.report()
    expect(counted()).toEqual([24, 15])
  })
})

test('the reconciliation fails without an effect while the store is unavailable', async () => {
  const open = await openMetered('postgres')
  const { tenantId } = await open.payer()
  await open.tenancy.quotas.track(tenantId, 'calls', 5)
  await open.tenancy.billing.windows.close()
  const { database } = open.tenancy.kernel
  await database.sql('alter table multitenancy.store_counters rename to hidden')
  await expect(open.tenancy.tenants.reconcileAfterRestore()).rejects.toThrow()
  expect(await open.batches(tenantId)).toMatchObject([{ heldAt: null, nextAttemptAt: expect.any(Date) }])
  await database.sql('alter table multitenancy.hidden rename to store_counters')
  await open.tenancy.tenants.reconcileAfterRestore()
  expect(await open.batches(tenantId)).toMatchObject([{ heldAt: expect.any(Date), nextAttemptAt: null }])
  await open.end()
})
