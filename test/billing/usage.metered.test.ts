/** Tests a quota that becomes metered: usage of payers before that is not billed. */
import { describe, expect, test } from 'vitest'
import { openMetering } from './usage.metered.fixture.ts'

describe.each(['postgres', 'redis'] as const)('with the store %s', (store) => {
  const fixture = openMetering(store)
  const { track, metering } = fixture

  test('usage before the first worker runs is not billed, and usage after it is billed, on that day and the next', async () => {
    const { open } = fixture
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

  test('a process that is started later bills usage since the quota became metered', async () => {
    const { open } = fixture
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
})
