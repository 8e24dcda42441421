/** Tests a host with plans.getPlan: billing stores subscriptions, writes no plan, and reports this at start. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling, PLANS } from './billing.fixture.ts'
import { eventRecorder } from './event-recorder.fixture.ts'
import { billing } from './index.ts'

let open: OpenBilling

beforeAll(async () => {
  const plans = { ...PLANS, getPlan: async () => 'scale' }
  open = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 1, graceDays: 0, action: 'downgrade' } },
    config: { plans },
  })
})
afterAll(() => open.end())

test('a subscription is stored, and its changes write no plan', async () => {
  const { tenantId, customerId, subscriptionId } = await open.subscriber()
  const { billing, tenants } = open.tenancy
  const known = async () => [(await tenants.get(tenantId)).metadata, (await billing.of(tenantId)).plan]
  expect(await billing.of(tenantId)).toMatchObject({ plan: 'scale', subscription: { status: 'active', plan: 'pro' } })
  expect(await known()).toEqual([{}, 'scale'])
  open.provider.setPaymentMethod(customerId, 'declines')
  open.provider.advance({ days: 33 })
  await open.deliverAndProcess()
  await billing.dunning.sweep()
  expect(await billing.of(tenantId)).toMatchObject({ dunning: { state: 'downgraded' } })
  expect(await known()).toEqual([{}, 'scale'])
  await Array.fromAsync(billing.sync.run(tenantId))
  await tenants.delete(tenantId)
  await tenants.restore(tenantId)
  await billing.cancel(tenantId, { atPeriodEnd: false })
  open.provider.cancel(subscriptionId)
  await open.deliverAndProcess()
  expect(await known()).toEqual([{}, 'scale'])
})

test('a list by plan is rejected as that of tenants', async () => {
  const { billing, tenants } = open.tenancy
  const expected = { code: 'E_PLAN_RESOLVED_BY_HOST' }
  await expect(tenants.list({ plan: 'pro', limit: 1 })).rejects.toMatchObject(expected)
  await expect(billing.listing.list({ plan: 'pro' })).rejects.toMatchObject(expected)
  await expect(billing.listing.export('csv', { plan: 'pro' })).rejects.toMatchObject(expected)
})

test('a worker reports at start that the host decides plans', async () => {
  const received: string[] = []
  const satellites = [billing(open.options), eventRecorder((name) => received.push(name))] as never
  const api = await open.open({ role: 'api', satellites })
  expect(received).toEqual([])
  const worker = await open.open({ role: 'worker', satellites })
  expect(received).toEqual(['BillingMisconfigured'])
  const { rows } = await open.tenancy.kernel.database.sql('select payload from multitenancy.recorded_events')
  expect(rows).toMatchObject([{ payload: { reason: 'plan_resolved_by_host', tenantId: null } }])
  expect(open.log.join()).toContain('plans.getPlan decides the plans of tenants, so billing writes no plan')
  await Promise.all([api.stop(), worker.stop()])
})
