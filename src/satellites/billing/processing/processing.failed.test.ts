/** Tests that the provider exhausts the retries before the dunning policy does, and its event is missing. */
import { expect, inject, test } from 'vitest'
import { openBilling } from '../billing.fixture.ts'
import { debtorsOf } from '../dunning/dunning.fixture.ts'

test('the grace period begins when the exhausted retries become known', async () => {
  const opened = await openBilling(inject('postgresUrl'), {
    options: { dunning: { maxAttempts: 5, graceDays: 7, action: 'suspend' } },
    provider: { start: new Date('2026-03-31T10:00:00Z'), afterRetries: 'past_due', retryDays: [3] },
  })
  const open = Object.assign(opened, debtorsOf(opened))
  const failures = () => open.provider.events.filter(({ type }) => type === 'invoice.payment_failed')
  const { tenantId, customerId } = await open.payer()
  open.provider.setPaymentMethod(customerId, 'declines')
  open.provider.advance({ days: 31, hours: 2 })
  const [first] = failures()
  open.provider.advance({ days: 3 })
  expect(failures()).toHaveLength(2)
  await open.deliver([first as never])
  await open.process()
  expect(await open.cases(tenantId)).toEqual(['grace'])
  await open.end()
})
