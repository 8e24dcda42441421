/** Suspensions by dunning while ten processes sweep, and payments that arrive during a sweep. */
import { expect, test } from 'vitest'
import { TenantSuspended } from '../../tenants/events.ts'
import { GRACE, sharedSuspending } from './suspending.fixture.ts'

const open = sharedSuspending()

test('ten processes that sweep at once suspend each tenant once', async () => {
  const debtors = await open.debtors(3)
  open.provider.advance(GRACE)
  const others = await Promise.all(Array.from({ length: 9 }, () => open.open({ role: 'api' })))
  const processes = [open.tenancy, ...others]
  const suspended: string[] = []
  for (const { kernel } of processes) {
    kernel.events.subscribe(TenantSuspended, 'within', ({ tenantId }) => void suspended.push(tenantId))
  }
  const done = await Promise.all(processes.map(({ billing }) => billing.dunning.sweep()))
  expect(done.reduce((sum, count) => sum + count, 0)).toBe(debtors.length)
  expect(suspended.sort()).toEqual(debtors.map(({ tenantId }) => tenantId).sort())
  for (const { tenantId } of debtors) expect((await open.now(tenantId))[0]).toBe('suspended pro')
  await Promise.all(others.map((other) => other.stop()))
})

test.each([1, 2, 3, 4, 5])('a payment that is processed during a sweep prevents the suspension, %i', async () => {
  const { tenantId, subscriptionId } = await open.debtor()
  open.provider.advance(GRACE)
  open.pay(subscriptionId)
  await open.deliver()
  const { billing } = open.tenancy
  await Promise.all([billing.dunning.sweep(), open.process(), billing.dunning.sweep()])
  expect(await open.now(tenantId)).toEqual(['active pro', 'recovered'])
})
