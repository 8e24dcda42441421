/** Tests that each unit is reported once while four processes close windows and usage grows. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Metered, openMetered } from './usage.fixture.ts'

// The store memory is not shared between processes.
describe.each(['postgres', 'redis'] as const)('usage counted in the store %s', (store) => {
  let open: Metered
  beforeAll(async () => {
    open = await openMetered(store)
  })
  afterAll(() => open.end())

  test('is reported once by ten loops of four processes while it grows in twenty rounds', async () => {
    const others = await Promise.all([open.open(), open.open(), open.open()])
    const payers = await Promise.all(Array.from({ length: 4 }, () => open.payer()))
    let isFinished = false
    const closing = Array.from({ length: 10 }, async (_, index) => {
      const process = [open.tenancy, ...others][index % 4] ?? open.tenancy
      while (!isFinished) await process.billing.windows.close()
    })
    for (let round = 1; round <= 20; round++) {
      await Promise.all(payers.map(({ tenantId }) => open.tenancy.quotas.track(tenantId, 'calls', round)))
      if (round % 7 === 0) await open.tenancy.quotas.reset(payers[0]?.tenantId ?? '', 'calls')
    }
    isFinished = true
    await Promise.all(closing)
    await open.report()
    expect(payers.map(({ customerId }) => open.counted(customerId))).toEqual([210, 210, 210, 210])
    await Promise.all(others.map((other) => other.stop()))
  })
})
