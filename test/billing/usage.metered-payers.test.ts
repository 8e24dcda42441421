/** Payers without a mark when a quota becomes paid for: they are billed from the moment on that they have a customer, or a mark. */
import { describe, expect, test } from 'vitest'
import { openMetering } from './usage.metered.fixture.ts'

describe.each(['postgres', 'redis'] as const)('with the store %s', (store) => {
  const fixture = openMetering(store)
  const { track, metering } = fixture

  test('a payer that is mapped before any worker is there pays for what it has used since', async () => {
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

  test('who could not be looked at when it began is at the next look', async () => {
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
