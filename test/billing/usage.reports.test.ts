/** Tests usage reports of hosts: idempotency by id, and validation. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { uuidv7 } from '../../src/kernel/base/ids.ts'
import { type Metered, openMetered } from './usage.fixture.ts'

describe('a usage report of a host', () => {
  let open: Metered

  beforeAll(async () => {
    open = await openMetered('postgres')
  })
  afterAll(() => open.end())
  afterEach(() => open.send()) // an unsent batch would be sent in another test

  test('counts once by its id with concurrent calls in two processes', async () => {
    const { tenantId, customerId } = await open.payer()
    const other = await open.open()
    const id = uuidv7()
    const report = (by = open.tenancy) => by.billing.reportUsage(tenantId, 'api_calls', 12, { id })
    const news = await Promise.all([report(), report(other), report(), report(other)])
    expect(news.filter(Boolean)).toHaveLength(1)
    expect(await report()).toBe(false)
    await open.send()
    expect(await report(other)).toBe(false)
    await open.send()
    expect(open.counted(customerId)).toBe(12)
    await other.stop()
  })

  test('is rejected with the id of another report', async () => {
    const [{ tenantId }, other] = [await open.payer(), await open.payer()]
    const id = uuidv7()
    await open.tenancy.billing.reportUsage(tenantId, 'api_calls', 1, { id })
    for (const [whose, meter, quantity] of [
      [other.tenantId, 'api_calls', 1],
      [tenantId, 'exports_made', 1],
      [tenantId, 'api_calls', 2],
    ] as const) {
      await expect(open.tenancy.billing.reportUsage(whose, meter, quantity, { id })).rejects.toMatchObject({
        code: 'E_INVALID_REQUEST',
        message: expect.stringContaining('another report'),
      })
    }
  })

  test.each([
    [{ quantity: 0 }, 'quantity'],
    [{ quantity: 1.5 }, 'quantity'],
    [{ quantity: -1 }, 'quantity'],
    [{ id: '' }, 'id'],
    [{ id: 'x'.repeat(201) }, 'id'],
    [{ meter: '' }, 'meter'],
  ])('is rejected with %j', async (wrong, path) => {
    const { tenantId } = await open.payer()
    const { quantity, id, meter } = { quantity: 1, id: uuidv7(), meter: 'api_calls', ...wrong }
    const rejected = open.tenancy.billing.reportUsage(tenantId, meter, quantity, { id })
    await expect(rejected).rejects.toMatchObject({ code: 'E_INVALID_REQUEST', message: expect.stringContaining(path) })
  })

  test('waits for a customer, and requires an existing tenant that is not deleted', async () => {
    const tenantId = await open.tenant()
    const report = (whose: string) => open.tenancy.billing.reportUsage(whose, 'api_calls', 5, { id: uuidv7() })
    await report(tenantId)
    await open.send()
    expect(await open.batches(tenantId)).toMatchObject([{ sentAt: null, errorCode: 'customer_not_found' }])
    const customerId = await open.tenancy.billing.ensureCustomer(tenantId)
    await open.send()
    expect(open.counted(customerId)).toBe(5)
    await expect(report('unknown')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    await open.tenancy.tenants.delete(tenantId)
    await expect(report(tenantId)).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  })

  test('is rolled back with the transaction of the caller', async () => {
    const { tenantId, customerId } = await open.payer()
    const id = uuidv7()
    const failing = open.tenancy.transaction(async () => {
      await open.tenancy.billing.reportUsage(tenantId, 'api_calls', 5, { id })
      throw new Error('undone')
    })
    await expect(failing).rejects.toThrow('undone')
    expect(await open.tenancy.billing.reportUsage(tenantId, 'api_calls', 5, { id })).toBe(true)
    await open.send()
    expect(open.counted(customerId)).toBe(5)
  })

  test('in a tenant’s transaction counts once after its commit, and not after a rollback', async () => {
    const { tenantId } = await open.payer()
    await open.tenancy.tenants.installation.install(tenantId, { isLast: true })
    const { transaction } = await open.tenancy.tenant(tenantId)
    const id = uuidv7()
    const report = () => open.tenancy.billing.reportUsage(tenantId, 'api_calls', 5, { id })
    const failing = transaction(async () => {
      await open.tenancy.billing.reportUsage(tenantId, 'api_calls', 7, { id: uuidv7() })
      throw new Error('rolled back')
    })
    await expect(failing).rejects.toThrow('rolled back')
    await transaction(report)
    await transaction(report)
    await open.tenancy.tenants.outbox.settled()
    expect(await open.batches(tenantId)).toMatchObject([{ meter: 'api_calls', quantity: 5 }])
  })
})
