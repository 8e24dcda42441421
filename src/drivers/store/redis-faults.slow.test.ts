/** Tests the store redis with a lost, unresponsive or slow connection, and with an unavailable server at the start. */
import { afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { startProxy, type Proxy as Way } from '../../../test/support/proxy.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { listenTo, type OpenedInRedis, openInRedis } from './redis.fixture.ts'
import { redisStore } from './redis.ts'

const EVENTUALLY = { timeout: 15_000, interval: 20 }
const one = [{ name: 'calls', amount: 1, limit: null }]

describe('the store redis with a failing connection', () => {
  let proxy: Way
  let opened: OpenedInRedis
  const counters = () => opened.store.counters
  const unavailable = (work: Promise<unknown>) => expect(work).rejects.toSatisfy(DependencyUnavailable.matches)

  beforeEach(async () => {
    proxy = await startProxy(inject('redisUrl'))
    opened = await openInRedis({ url: proxy.url, timeoutMs: 300 }, { url: inject('redisUrl') })
  })
  afterEach(async () => {
    await opened.store.close()
    await opened.cleanUp()
    await proxy.close()
  })

  test('fails with a lost connection, and recovers when the connection is back', async () => {
    await counters().take('acme', one)
    await proxy.close()
    await unavailable(counters().take('acme', one))
    await unavailable(opened.store.get('acme', 'key'))
    await proxy.open()
    await vi.waitFor(() => counters().take('acme', one), EVENTUALLY)
    await vi.waitFor(() => opened.store.get('acme', 'key'), EVENTUALLY)
  })

  test('times out without responses, then fails immediately, and reports a gap of messages when it recovers', async () => {
    const { received, gaps } = await listenTo(opened.store, 'news')
    await vi.waitFor(() => expect(gaps).toHaveLength(1), EVENTUALLY)
    await counters().take('acme', one)
    proxy.blackhole()
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 100 }, () => counters().take('acme', one)),
      opened.store.get('acme', 'key'),
      counters().readAll('acme'),
      counters().counted('acme', ['calls']),
    ])
    for (const outcome of outcomes) {
      expect(outcome.status === 'rejected' && DependencyUnavailable.matches(outcome.reason)).toBe(true)
    }
    await unavailable(opened.store.ping())
    await proxy.close()
    await proxy.open()
    await vi.waitFor(() => counters().take('acme', one), EVENTUALLY)
    await vi.waitFor(() => expect(gaps.length).toBeGreaterThan(1), EVENTUALLY)
    await opened.store.publish('news', 'again')
    await vi.waitFor(() => expect(received).toEqual(['again']), EVENTUALLY)
    expect((await counters().read('acme', 'calls')).today).toBe(2)
  })

  test('fails a call whose response is too late, and counts nothing twice', async () => {
    await counters().take('acme', one)
    proxy.slow(700)
    await unavailable(counters().take('acme', one))
    await unavailable(counters().take('acme', one))
    proxy.slow(0)
    await vi.waitFor(() => counters().take('globex', one), EVENTUALLY)
    const { today } = await counters().read('acme', 'calls')
    expect(today).toBeGreaterThanOrEqual(1)
    expect(today).toBeLessThanOrEqual(2)
  })

  test('opens without a server, fails each call, and connects when the server is available', async () => {
    await proxy.close()
    const store = redisStore({ url: proxy.url, keyPrefix: opened.prefix, timeoutMs: 300 }).open({
      log: createLogger({ level: 'silent' }),
    })
    const received: string[] = []
    const listening = store.subscribe(
      'news',
      (message) => void received.push(message),
      () => void received.push('a gap'),
    )
    await unavailable(store.get('acme', 'key'))
    await unavailable(store.counters.take('acme', one))
    await listening
    await proxy.open()
    await vi.waitFor(() => store.set('acme', 'key', 'value'), EVENTUALLY)
    await vi.waitFor(() => expect(received).toEqual(['a gap']), EVENTUALLY)
    await store.publish('news', 'here')
    await vi.waitFor(() => expect(received).toEqual(['a gap', 'here']), EVENTUALLY)
    await store.close()
    await unavailable(store.get('acme', 'key'))
  })

  test('logs an outage once, and its end once', async () => {
    const lines: string[] = []
    const logged = await openInRedis(
      { url: proxy.url, timeoutMs: 300, log: createLogger({ write: (line) => void lines.push(line) }) },
      { url: inject('redisUrl') },
    )
    await logged.store.ping()
    await proxy.close()
    for (let n = 0; n < 20; n++) await unavailable(logged.store.ping())
    await proxy.open()
    await vi.waitFor(() => logged.store.ping(), EVENTUALLY)
    await vi.waitFor(() => expect(lines.filter((line) => line.includes('reached again'))).toHaveLength(1), EVENTUALLY)
    expect(lines.filter((line) => line.includes('cannot be reached'))).toHaveLength(1)
    await logged.store.close()
    await logged.cleanUp()
  })
})
