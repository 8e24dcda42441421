/** Time of the last change of a tenant: never too early, with limited memory. */
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { RecentChanges } from './recent-changes.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => vi.useRealTimers())

test('is exact for the latest changes, and never too early for the others', () => {
  const tenants = fc.integer({ min: 0, max: 9 })
  fc.assert(
    fc.property(fc.array(tenants, { maxLength: 60 }), (received) => {
      const changes = new RecentChanges(4)
      const last = new Map<number, number>()
      for (const tenant of received) {
        vi.advanceTimersByTime(1)
        changes.record(`${tenant}`)
        last.delete(tenant)
        last.set(tenant, performance.now())
      }
      const newest = [...last].toReversed()
      for (const [tenant, at] of newest.slice(0, 4)) expect(changes.at(`${tenant}`)).toBe(at)
      for (const [tenant, at] of newest) expect(changes.at(`${tenant}`)).toBeGreaterThanOrEqual(at)
      expect(changes.at('never')).toBe(newest[4]?.[1] ?? Number.NEGATIVE_INFINITY)
    }),
  )
})
