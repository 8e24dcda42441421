/**
 * Tests payers without a watermark when a quota becomes metered: they are billed from their mapping, or from their
 * watermark on.
 */
import { describe, expect, test } from 'vitest'
import { openMetering } from './usage.metered.fixture.ts'

describe.each(['postgres', 'redis'] as const)('with the store %s', (store) => {
  const fixture = openMetering(store)
  const { track, metering } = fixture

  test('a payer that is mapped before any worker runs is billed for usage since its mapping', async () => {
    const { open } = fixture
    const process = await metering('hits', 'api')
    const tenantId = await open.tenant()
    const customerId = await process.billing.ensureCustomer(tenantId)
    await track(tenantId, 8, 'hits')
    const worker = await metering('hits')
    await open.report(worker)
    expect(open.counted(customerId)).toBe(8)
    await Promise.all([process.stop(), worker.stop()])
  })

  test('a payer whose first watermark failed gets it at the next close', async () => {
    const { open } = fixture
    const { tenantId, customerId } = await open.payer()
    await track(tenantId, 50, 'stares')
    const { database } = open.tenancy.kernel
    await database.sql('alter table multitenancy.billing_usage_watermarks rename to hidden')
    const worker = await metering('stares')
    await database.sql('alter table multitenancy.hidden rename to billing_usage_watermarks')
    await open.report(worker)
    await track(tenantId, 9, 'stares')
    await open.report(worker)
    expect(open.counted(customerId)).toBe(9)
    await worker.stop()
  })
})
