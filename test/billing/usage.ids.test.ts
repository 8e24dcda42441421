/** Tests ids of usage reports by hosts: UUIDs in any spelling, and other texts. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { uuidv7 } from '../../src/kernel/base/ids.ts'
import { type Metered, openMetered } from './usage.fixture.ts'

const METER_EVENTS = '/v1/billing/meter_events'

let open: Metered

beforeAll(async () => {
  open = await openMetered('postgres')
})
afterAll(() => open.end())
afterEach(() => open.provider.faults.clear())

const report = (tenantId: string, id: string, { meter = 'api_calls', quantity = 7 } = {}) =>
  open.tenancy.billing.reportUsage(tenantId, meter, quantity, { id })
const jobs = async (tenantId: string) => {
  const { rows } = await open.tenancy.kernel.database.sql(
    `select data ->> 'id' as id from multitenancy_jobs.job
     where name = 'tenantry.ReportUsageBatch' and data ->> 'id' in (select id::text from multitenancy.billing_usage where tenant_id = $1)`,
    [tenantId],
  )
  return rows.map(({ id }) => id)
}
const identifiersFor = (customerId: string) =>
  open.provider.requests.flatMap(({ path, params }) => {
    const { stripe_customer_id: id } = (params.payload ?? {}) as { stripe_customer_id?: string }
    return path === METER_EVENTS && id === customerId ? [params.identifier] : []
  })

test('a UUID in uppercase is the same id as in lowercase, also at the provider', async () => {
  const { tenantId, customerId } = await open.payer()
  const id = uuidv7()
  expect(await report(tenantId, id.toUpperCase())).toBe(true)
  expect(await report(tenantId, id)).toBe(false)
  expect(await jobs(tenantId)).toEqual([id])
  open.provider.faults.lose({ path: METER_EVENTS })
  await open.tenancy.billing.usage.send(id.toUpperCase())
  expect(await open.batches(tenantId)).toMatchObject([{ id, sentAt: null }])
  await open.send()
  expect(await open.batches(tenantId)).toMatchObject([{ id, sentAt: expect.any(Date) }])
  expect(open.counted(customerId)).toBe(7)
  expect(identifiersFor(customerId)).toEqual([id, id])
})

test('any other text is the id of one report of its tenant and meter', async () => {
  const [one, other] = [await open.payer(), await open.payer()]
  const id = `order-4711 ${'ü'.repeat(150)}`
  expect(await report(one.tenantId, id)).toBe(true)
  expect(await report(one.tenantId, id)).toBe(false)
  expect(await report(one.tenantId, id.toUpperCase())).toBe(true)
  expect(await report(other.tenantId, id)).toBe(true)
  expect(await report(one.tenantId, id, { meter: 'exports_made' })).toBe(true)
  await expect(report(one.tenantId, id, { quantity: 8 })).rejects.toMatchObject({
    code: 'E_INVALID_REQUEST',
    message: expect.stringContaining('another report'),
  })
  for (const batch of await open.batches(one.tenantId)) {
    expect(batch.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  }
  await open.send()
  expect(open.counted(one.customerId)).toBe(14)
  expect(open.counted(other.customerId)).toBe(7)
  expect(open.provider.usage('exports_made', one.customerId)).toBe(7)
})

test.each(['x', '\u0000', '\ud800', 'x'.repeat(200)])('%j is a valid report id', async (id) => {
  const { tenantId } = await open.payer()
  expect(await report(tenantId, id)).toBe(true)
  expect(await report(tenantId, id)).toBe(false)
})
