/** The customer at the payment provider in an erasure of its tenant. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OpenBilling } from '../billing.fixture.ts'
import { atProvider, openWith } from './tenant-deletion.fixture.ts'

const signal = AbortSignal.timeout(60_000)

let open: OpenBilling
beforeAll(async () => {
  open = await openWith('cancel')
  open.provider.settings.searchDelaySeconds = 60
})
afterAll(() => open.end())

const erase = async (id: string, billing: 'keep' | 'delete') => {
  const { erasures } = open.tenancy.tenants
  await erasures.request(id, { confirm: id, reason: 'request 4711', billing })
  await erasures.work(id, { signal })
  const erasure = await erasures.get(id)
  return { ...erasure, provider: erasure.report?.systems.find(({ system }) => system === 'payment provider') }
}
const hasCustomer = (id: string) => open.tenancy.billing.dependencies.payments.hasCustomer(id)

describe('an erasure', () => {
  test('cancels the subscription and keeps the customer, which the report names', async () => {
    const payer = await open.subscriber()
    const { state, provider } = await erase(payer.tenantId, 'keep')
    expect(state).toBe('completed')
    expect(await atProvider(open, payer)).toBe('canceled')
    expect(await hasCustomer(payer.customerId)).toBe(true)
    expect(provider).toMatchObject({ kind: 'customers', found: 1, removed: 0, foundAfterwards: 1 })
    expect(provider?.kept).toContain('legal retention')
    const { rows } = await open.tenancy.kernel.database.sql(
      'select from multitenancy.erasures where tenant_id = $1 and strpos(erasures::text, $2) > 0',
      [payer.tenantId, payer.customerId],
    )
    expect(rows).toEqual([])
  })

  test('deletes the customer with its subscription on request', async () => {
    const payer = await open.subscriber()
    const { state, provider } = await erase(payer.tenantId, 'delete')
    expect(state).toBe('completed')
    expect(await hasCustomer(payer.customerId)).toBe(false)
    expect(await atProvider(open, payer)).toBe('canceled')
    expect(provider).toMatchObject({ found: 1, removed: 1, foundAfterwards: 0, kept: null })
  })

  test('keeps and names a customer with the id of the tenant that the backoffice has no record of', async () => {
    const { tenantId, customerId } = await open.subscriber()
    open.provider.advance({ hours: 1 })
    await open.tenancy.tenants.delete(tenantId)
    expect(await open.tenancy.tenants.installation.purge(tenantId)).toBe(true)
    const { state, provider } = await erase(tenantId, 'delete')
    expect(state).toBe('completed')
    expect(provider).toMatchObject({ kind: 'customers without a record', found: 1, removed: 0, foundAfterwards: 1 })
    expect(provider?.kept).toContain('another installation')
    expect(await hasCustomer(customerId)).toBe(true)
  })

  test('deletes the recorded customer beside that of another installation with the same id', async () => {
    const { tenantId, customerId } = await open.subscriber()
    const other = await open.tenancy.billing.dependencies.payments.createCustomer(tenantId, 4711)
    open.provider.advance({ hours: 1 })
    const { state, report } = await erase(tenantId, 'delete')
    expect(state).toBe('completed')
    expect(report?.systems.filter(({ system }) => system === 'payment provider')).toMatchObject([
      { kind: 'customers', found: 1, removed: 1 },
      { kind: 'customers without a record', found: 1, removed: 0 },
    ])
    expect([await hasCustomer(customerId), await hasCustomer(other)]).toEqual([false, true])
  })

  test('waits for an unavailable provider before it deletes the rows', async () => {
    const { tenantId, customerId } = await open.subscriber()
    open.provider.faults.respond(500, { path: '/v1/customers' })
    expect(await erase(tenantId, 'delete')).toMatchObject({ state: 'pending', waitingFor: 'payment provider' })
    expect(await open.tenancy.billing.tenantDeletion.customersOf(tenantId)).toEqual([customerId])
    open.provider.faults.clear()
    expect(await erase(tenantId, 'delete')).toMatchObject({ state: 'completed', waitingFor: null })
    expect(await hasCustomer(customerId)).toBe(false)
  })
})
