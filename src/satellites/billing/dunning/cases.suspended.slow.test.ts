/** Tests suspensions by dunning with ten sweeping processes, and payments during a sweep or a suspension. */
import { describe, expect, test } from 'vitest'
import { TenantSuspended } from '../../../tenants/tenant/events.ts'
import { GRACE, sharedSuspending } from './suspending.fixture.ts'

const open = sharedSuspending()

test('ten processes that sweep concurrently suspend each tenant once', async () => {
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

describe.each([1, 2, 3, 4, 5])('round %i', () => {
  test('a payment that is processed during a sweep prevents the suspension', () => open.paysDuringSweep())
  test('a suspension by an operator during the processing of the payment stays', () => open.repeatsSuspension())
})
