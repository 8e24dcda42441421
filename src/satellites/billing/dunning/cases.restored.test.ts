/**
 * Tests tenants that dunning suspended and that are deleted and restored: the status is the same as without the
 * deletion.
 */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from '../billing.fixture.ts'
import { type Debtors, debtorsOf } from './dunning.fixture.ts'

let open: OpenBilling & Debtors
beforeAll(async () => {
  const opened = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 1, graceDays: 7, action: 'suspend' }, onTenantDelete: 'preserve' },
    provider: { start: new Date('2026-03-31T10:00:00Z'), afterRetries: 'past_due', retryDays: [60] },
  })
  open = Object.assign(opened, debtorsOf(opened))
})
afterEach(() => open.clear())
afterAll(() => open.end())

const now = async (tenantId: string) => [await open.statusAndPlan(tenantId), ...(await open.cases(tenantId))]
const pay = (subscriptionId: string, index = 0) =>
  open.provider.payInvoice(open.invoices(subscriptionId)[index]?.id as string)

/** A tenant whose grace period has ended for the invoices of that many periods. */
async function suspended(periods: 1 | 2) {
  const one = await open.debtor()
  await open.pass({ days: 7 })
  if (periods === 2) await open.pass({ days: 35 })
  expect(await now(one.tenantId)).toEqual(['suspended pro', ...Array(periods).fill('suspended')])
  return one
}

test('a payment during the deletion activates the restored tenant', async () => {
  const { tenantId, subscriptionId } = await suspended(1)
  await open.tenancy.tenants.delete(tenantId)
  pay(subscriptionId)
  await open.deliverAndProcess()
  expect(await now(tenantId)).toEqual(['deleted pro', 'recovered'])
  expect(await open.tenancy.tenants.restore(tenantId)).toMatchObject({ tenant: { status: 'active' } })
  expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
})

test('a payment after the restoration activates the tenant', async () => {
  const { tenantId, subscriptionId } = await suspended(1)
  await open.tenancy.tenants.delete(tenantId)
  await open.tenancy.tenants.restore(tenantId)
  expect(await now(tenantId)).toEqual(['suspended pro', 'suspended'])
  pay(subscriptionId)
  await open.deliverAndProcess()
  expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
})

test('a restored tenant with a remaining debt stays suspended until it is paid', async () => {
  const { tenantId, subscriptionId } = await suspended(2)
  await open.tenancy.tenants.delete(tenantId)
  pay(subscriptionId, 1)
  await open.deliverAndProcess()
  await open.tenancy.tenants.restore(tenantId)
  expect(await now(tenantId)).toEqual(['suspended pro', 'recovered', 'suspended'])
  pay(subscriptionId)
  await open.deliverAndProcess()
  expect(await now(tenantId)).toEqual(['active pro', 'recovered', 'recovered'])
})

test('a grace period that ends during the deletion suspends the restored tenant', async () => {
  const { tenantId, subscriptionId } = await open.debtor()
  await open.tenancy.tenants.delete(tenantId)
  await open.pass({ days: 7 })
  expect(await now(tenantId)).toEqual(['deleted pro', 'suspended'])
  await open.tenancy.tenants.restore(tenantId)
  expect(await now(tenantId)).toEqual(['suspended pro', 'suspended'])
  pay(subscriptionId)
  await open.deliverAndProcess()
  expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
})

test('a restored tenant that an operator had suspended stays suspended', async () => {
  const { tenantId, subscriptionId } = await suspended(1)
  await open.tenancy.tenants.activate(tenantId)
  await open.pass({ seconds: 1 })
  await open.tenancy.tenants.suspend(tenantId)
  await open.tenancy.tenants.delete(tenantId)
  pay(subscriptionId)
  await open.deliverAndProcess()
  await open.tenancy.tenants.restore(tenantId)
  expect(await now(tenantId)).toEqual(['suspended pro', 'recovered'])
})

test('a restored tenant that an operator had activated stays active', async () => {
  const { tenantId, subscriptionId } = await suspended(1)
  await open.tenancy.tenants.activate(tenantId)
  await open.tenancy.tenants.delete(tenantId)
  await open.pass({ days: 1 })
  expect(await open.tenancy.tenants.restore(tenantId)).toMatchObject({ tenant: { status: 'active' } })
  expect(await now(tenantId)).toEqual(['active pro', 'suspended'])
  await open.tenancy.billing.dunning.sweep()
  pay(subscriptionId)
  await open.deliverAndProcess()
  expect(await now(tenantId)).toEqual(['active pro', 'recovered'])
})

test('a restored tenant that an operator activates stays active after an earlier suspension by an operator', async () => {
  const { tenantId } = await open.debtor()
  await open.tenancy.tenants.suspend(tenantId)
  await open.tenancy.tenants.delete(tenantId)
  await open.pass({ days: 7 })
  await open.tenancy.tenants.restore(tenantId)
  await open.tenancy.tenants.activate(tenantId)
  await open.tenancy.billing.dunning.sweep()
  expect(await now(tenantId)).toEqual(['active pro', 'suspended'])
})
