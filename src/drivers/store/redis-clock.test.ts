/** Tests that the day of counters in Redis is the server's, regardless of the process's clock. */
import { afterEach, describe, expect, inject, test, vi } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import { moveToNoon } from '../../testing/store/opened-store.ts'
import { openInRedis, TIMEOUT_MS } from './redis.fixture.ts'
import { redisStore } from './redis.ts'

const one = [{ name: 'calls', amount: 1, limit: null }]

describe('the store redis with a different clock in the process', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  test.each([
    ['days behind', -3 * 86_400_000],
    ['hours behind', -13 * 3_600_000],
    ['hours ahead', 13 * 3_600_000],
    ['days ahead', 40 * 86_400_000],
  ])('a process whose clock is %s counts into the day of the server', async (_, skewMs) => {
    const url = inject('redisUrl')
    const opened = await openInRedis({ url })
    const offsetMs = await moveToNoon(opened)
    const { counters } = opened.store
    const serverMs = (await counters.take('acme', one)).nowMs
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + skewMs })
    const skewed = redisStore({
      url,
      keyPrefix: opened.prefix,
      timeoutMs: TIMEOUT_MS,
      clockOffsetMs: () => offsetMs,
    }).open({ log: createLogger({ level: 'silent' }) })
    const taken = await skewed.counters.take('acme', one)
    expect(taken.usages).toEqual([2])
    expect(Math.abs(taken.nowMs - serverMs)).toBeLessThan(60_000)
    expect((await skewed.counters.read('acme', 'calls')).today).toBe(2)
    expect((await skewed.counters.readAll('acme')).today).toEqual(new Map([['calls', 2]]))
    await skewed.counters.clear('acme')
    expect((await counters.read('acme', 'calls')).today).toBeNull()
    for (const each of [counters, skewed.counters]) {
      const counted = await each.counted('acme', ['calls'])
      expect([counted.today, counted.yesterday]).toEqual([new Map([['calls', 2]]), new Map()])
      expect(Math.abs(counted.nowMs - serverMs)).toBeLessThan(60_000)
    }
    await skewed.close()
    await opened.store.close()
    await opened.cleanUp()
  })
})
