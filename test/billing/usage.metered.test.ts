/** A quota becomes one that is paid for: what payers have used of it before is not billed. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { billing } from '../../src/satellites/billing/index.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { type Metered, openMetered } from './usage.fixture.ts'

describe.each(['postgres', 'redis'] as const)('with the store %s', (store) => {
  let open: Metered

  beforeAll(async () => {
    open = await openMetered(store, { options: { usage: {} } })
  })
  afterAll(() => open.end())

  const track = (tenantId: string, amount: number, quota = 'calls') =>
    open.tenancy.quotas.track(tenantId, quota, amount)
  /** As when it is configured, and processes are started anew; none of their windows ends by itself while a test runs. */
  const metering = async (quota: string, role: 'worker' | 'api' = 'worker') => {
    open.provider.advance({ seconds: 1 })
    const usage = { [quota]: { meter: 'api_calls', flushMs: 3_600_000 } }
    return open.open({ satellites: [quotas(), billing({ ...open.options, usage })], role })
  }

  test('what was used until a process works is nobody’s to pay, and the rest is, of that day and the next', async () => {
    const [payer, idle, stranger] = [await open.payer(), await open.payer(), await open.tenant()]
    await track(payer.tenantId, 100)
    open.toTomorrow()
    await track(payer.tenantId, 20)
    await track(stranger, 4)
    const worker = await metering('calls')
    expect(await open.batches(payer.tenantId)).toEqual([])
    expect((await worker.billing.of(payer.tenantId)).unreportedUsage).toEqual([])
    await track(payer.tenantId, 3)
    await track(idle.tenantId, 5)
    expect((await worker.billing.of(payer.tenantId)).unreportedUsage).toMatchObject([{ quantity: 3 }])
    await open.report(worker)
    expect([open.counted(payer.customerId), open.counted(idle.customerId)]).toEqual([3, 5])

    const later = await worker.billing.ensureCustomer(stranger)
    await open.report(worker)
    expect(open.counted(later)).toBe(4)

    await track(payer.tenantId, 6)
    open.toTomorrow()
    await track(payer.tenantId, 7)
    await track(idle.tenantId, 8)
    await open.report(worker)
    expect([open.counted(payer.customerId), open.counted(idle.customerId)]).toEqual([16, 13])
    await worker.stop()
  })

  test('a process that is started later bills what was used meanwhile', async () => {
    const { tenantId, customerId } = await open.payer()
    await track(tenantId, 50, 'looks')
    await (await metering('looks')).stop()
    await track(tenantId, 2, 'looks')
    const next = await metering('looks')
    await track(tenantId, 1, 'looks')
    await open.report(next)
    expect(open.counted(customerId)).toBe(3)
    await next.stop()
  })

  // What follows does not depend on the store.
  if (store !== 'postgres') return

  test('a payer that is mapped before any worker is there pays for what it has used since', async () => {
    const process = await metering('hits', 'api')
    const tenantId = await open.tenant()
    const customerId = await process.billing.ensureCustomer(tenantId)
    await track(tenantId, 8, 'hits')
    const worker = await metering('hits')
    await open.report(worker)
    expect(open.counted(customerId)).toBe(8)
    await Promise.all([process.stop(), worker.stop()])
  })

  test('who could not be looked at when it began is at the next look', async () => {
    const { tenantId, customerId } = await open.payer()
    await track(tenantId, 50, 'stares')
    const { database } = open.tenancy.kernel
    await database.sql('alter table multitenancy.billing_marks rename to hidden')
    const worker = await metering('stares')
    await database.sql('alter table multitenancy.hidden rename to billing_marks')
    await open.report(worker)
    await track(tenantId, 9, 'stares')
    await open.report(worker)
    expect(open.counted(customerId)).toBe(9)
    await worker.stop()
  })
})
