/** Billing of all tenants: filters, pages and exports. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling, type Subscriber } from './billing.fixture.ts'
import { debtorsOf } from './dunning/dunning.fixture.ts'
import type { BillingFilter } from './listing.ts'

let open: OpenBilling
let owing: Subscriber
let paying: Subscriber
let ended: Subscriber
let without: string

beforeAll(async () => {
  open = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 2, graceDays: 7, action: 'downgrade' } },
  })
  const { debtor } = debtorsOf(open)
  owing = await debtor()
  paying = await open.subscriber('scale')
  ended = await open.subscriber('pro')
  open.provider.cancel(ended.subscriptionId)
  await open.deliverAndProcess()
  without = await open.tenant()
})
afterAll(() => open.end())

const listing = () => open.tenancy.billing.listing
const idsOf = async (filter: BillingFilter) => (await listing().list(filter)).data.map(({ tenantId }) => tenantId)

describe('the billing of all tenants', () => {
  test('an item is the billing of the tenant without its usage', async () => {
    const { data, nextCursor } = await listing().list()
    expect(nextCursor).toBe(null)
    const expected = []
    for (const { tenantId } of [owing, paying, ended]) {
      const { unreportedUsage: _, ...billing } = await open.tenancy.billing.of(tenantId)
      expected.push({ ...billing, name: 'Payer' })
    }
    expect(data).toEqual(expected.toSorted((one, other) => (one.tenantId < other.tenantId ? -1 : 1)))
    expect(data.map(({ tenantId }) => tenantId)).not.toContain(without)
  })

  test('filters select by dunning state, status and plan, and combine', async () => {
    expect(await idsOf({ dunning: 'open' })).toEqual([owing.tenantId])
    expect(await idsOf({ dunning: 'retrying' })).toEqual([owing.tenantId])
    expect(await idsOf({ dunning: 'grace' })).toEqual([])
    expect(await idsOf({ status: 'active' })).toEqual([paying.tenantId])
    expect(await idsOf({ status: 'canceled' })).toEqual([ended.tenantId])
    expect(await idsOf({ plan: 'scale' })).toEqual([paying.tenantId])
    expect(await idsOf({ plan: 'free' })).toEqual([ended.tenantId])
    expect(await idsOf({ plan: 'pro', dunning: 'open' })).toEqual([owing.tenantId])
    expect(await idsOf({ plan: 'scale', dunning: 'open' })).toEqual([])
    await expect(idsOf({ plan: 'unknown' })).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
  })

  test('pages follow tenant ids, and a cursor is valid for its filters only', async () => {
    const all = await idsOf({})
    const first = await listing().list({ limit: 2 })
    const cursor = first.nextCursor ?? ''
    const next = await listing().list({ limit: 2, cursor })
    expect([...first.data, ...next.data].map(({ tenantId }) => tenantId)).toEqual(all)
    expect(next).toMatchObject({ nextCursor: null })
    await expect(listing().list({ status: 'active', cursor })).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
  })

  test('a running subscription is shown in place of an ended one', async () => {
    const { customerId, tenantId } = ended
    open.provider.subscribe(customerId, open.prices.scale)
    await open.deliverAndProcess()
    expect(await idsOf({ status: 'canceled' })).toEqual([])
    expect(await idsOf({ plan: 'scale' })).toContain(tenantId)
  })

  test('the export has all items that match, as CSV', async () => {
    const text = (await Array.fromAsync(await listing().export('csv', { dunning: 'open' }))).join('')
    const [head, row, ...more] = text.trim().split('\r\n')
    expect(head).toMatch(/^tenantId,name,plan,customerId,subscriptionId,status,/)
    expect(row).toMatch(
      new RegExp(`^${owing.tenantId},Payer,pro,${owing.customerId},${owing.subscriptionId},past_due,`),
    )
    expect(more).toEqual([])
    const lines = (await Array.fromAsync(await listing().export('ndjson'))).join('').trim().split('\n')
    expect(lines.map((line) => JSON.parse(line).tenantId)).toEqual(await idsOf({}))
  })
})
