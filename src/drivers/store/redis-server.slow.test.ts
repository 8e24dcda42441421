/** What needs a server of one's own: one that is killed, that sleeps, that forgets; and a cluster. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type RedisCluster, startRedisCluster } from '../../../test/support/redis-cluster.ts'
import { type RedisServer, startRedisServer } from '../../../test/support/redis-server.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { storeDiagnosis } from '../../kernel/doctor/store.ts'
import { storeSuite } from '../../testing/store/suite.ts'
import { listenTo, type OpenedInRedis, openInRedis } from './redis.fixture.ts'

const one = [{ name: 'calls', amount: 1, limit: null }]
const EVENTUALLY = { timeout: 60_000, interval: 20 }

await storeSuite('redis, as a cluster of three', async () => {
  const cluster = await startRedisCluster()
  const opened = await openInRedis({ nodes: cluster.urls })
  return {
    ...opened,
    async cleanUp() {
      await opened.cleanUp()
      await cluster.stop()
    },
  }
})

test.each([
  ['may drop any key', ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'], ['store.evicts']],
  ['refuses to keep more', ['--maxmemory', '100mb', '--maxmemory-policy', 'noeviction'], []],
  ['has no bound', ['--maxmemory-policy', 'allkeys-lru'], []],
])('the doctor of a server that %s', async (_, settings, codes) => {
  const server = await startRedisServer(settings)
  const { store, cleanUp } = await openInRedis({ url: server.url })
  const found: string[] = []
  const examination = { prove: false, signal: new AbortController().signal, log: createLogger({ level: 'silent' }) }
  for await (const { code } of storeDiagnosis.examine(store, examination)) found.push(code)
  expect(found).toEqual(codes)
  await store.close()
  await cleanUp?.()
  await server.stop()
})

describe('the store redis and a server that', () => {
  let server: RedisServer
  let opened: OpenedInRedis
  const counters = () => opened.store.counters

  beforeAll(async () => {
    server = await startRedisServer()
    opened = await openInRedis({ url: server.url, timeoutMs: 400 })
    opened.admin.on('error', () => undefined)
  })
  afterAll(async () => {
    await opened.store.close()
    await opened.cleanUp()
    await server.stop()
  })

  test('forgets its scripts in the middle of traffic, is told them again: nothing is lost, nothing counted twice', async () => {
    let isFinished = false
    const forgetting = async () => {
      while (!isFinished) await opened.admin.script('FLUSH')
    }
    const forgotten = forgetting()
    const results = await Promise.all(
      Array.from({ length: 20 }, () => repeat(100, () => counters().take('counted', one))),
    )
    isFinished = true
    await forgotten
    expect(results.flat()).toHaveLength(2_000)
    expect((await counters().read('counted', 'calls')).today).toBe(2_000)
    expect(await opened.store.increment('counted', 'plain', 2)).toBe(2)
  })

  test('forgets its scripts, while some clear and look: nothing is lost either', async () => {
    let isFinished = false
    const forgetting = async () => {
      while (!isFinished) await opened.admin.script('FLUSH')
    }
    const forgotten = forgetting()
    const looking = repeat(100, async () => (await counters().counted('cleared', ['calls'])).today.get('calls') ?? 0)
    await Promise.all([
      ...Array.from({ length: 10 }, () => repeat(100, () => counters().take('cleared', one))),
      repeat(100, () => counters().clear('cleared')),
      looking,
    ])
    isFinished = true
    await forgotten
    const seen = await looking
    expect(seen).toEqual(seen.toSorted((a, b) => Number(a) - Number(b)))
    expect((await counters().counted('cleared', ['calls'])).today).toEqual(new Map([['calls', 1_000]]))
  })

  test('is killed: calls fail at once, and go on by themselves when it is back', async () => {
    const { received, gaps } = await listenTo(opened.store, 'news')
    const before = gaps.length
    await server.kill()
    await vi.waitFor(
      () => expect(counters().take('acme', one)).rejects.toSatisfy(DependencyUnavailable.matches),
      EVENTUALLY,
    )
    for (const call of everyMethod()) await expect(call()).rejects.toSatisfy(DependencyUnavailable.matches)
    await server.start()
    await vi.waitFor(() => counters().take('globex', one), EVENTUALLY)
    await vi.waitFor(() => expect(gaps.length).toBeGreaterThan(before), EVENTUALLY)
    await opened.store.publish('news', 'back again')
    await vi.waitFor(() => expect(received).toEqual(['back again']), EVENTUALLY)
    for (const call of everyMethod()) await call()
  })

  test('has no memory left, refuses what is new, which is no fault of the caller', async () => {
    await counters().take('full', one)
    await opened.admin.config('SET', 'maxmemory', '1')
    await expect(counters().take('acme', one)).rejects.toSatisfy(DependencyUnavailable.matches)
    await expect(opened.store.set('acme', 'key', 'value')).rejects.toSatisfy(DependencyUnavailable.matches)
    await expect(counters().clear('full')).rejects.toSatisfy(DependencyUnavailable.matches)
    await opened.admin.config('SET', 'maxmemory', '0')
    expect(await counters().take('full', one)).toMatchObject({ usages: [2] })
    expect((await counters().counted('full', ['calls'])).today).toEqual(new Map([['calls', 2]]))
  })

  test('is a replica for a while', async () => {
    await opened.admin.call('REPLICAOF', '127.0.0.1', '1')
    await expect(counters().take('acme', one)).rejects.toSatisfy(DependencyUnavailable.matches)
    await opened.admin.call('REPLICAOF', 'NO', 'ONE')
    await vi.waitFor(() => counters().take('acme', one), EVENTUALLY)
  })

  test('stands still: calls fail in time, the next ones at once, and they go on when it does', async () => {
    process.kill(server.pid, 'SIGSTOP')
    try {
      const outcomes = await Promise.allSettled(Array.from({ length: 50 }, () => counters().take('initech', one)))
      expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true)
      for (const call of everyMethod()) await expect(call()).rejects.toSatisfy(DependencyUnavailable.matches)
    } finally {
      process.kill(server.pid, 'SIGCONT')
    }
    await vi.waitFor(() => counters().take('initech', one), EVENTUALLY)
    expect((await counters().read('initech', 'calls')).today).toBeLessThanOrEqual(51)
    await vi.waitFor(() => opened.store.ping(), EVENTUALLY)
  })

  test('ends the connections: what was under way fails or is counted, and never twice', async () => {
    const results = new Map<string, 'answered' | 'failed'>()
    const answered = () => [...results.values()].filter((what) => what === 'answered').length
    let isFinished = false
    const taking = Array.from({ length: 20 }, async (_, worker) => {
      for (let round = 0; !isFinished; round++) {
        const name = `calls-${worker}-${round}`
        const call = counters().take('umbrella', [{ name, amount: 1, limit: null }])
        results.set(
          name,
          await call.then(
            () => 'answered' as const,
            () => 'failed' as const,
          ),
        )
        // While it is away, calls are not even sent.
        if (results.get(name) === 'failed') await vi.waitFor(() => opened.store.ping(), EVENTUALLY)
      }
    })
    for (let kills = 0; kills < 10; kills++) {
      const before = answered()
      await vi.waitFor(() => expect(answered()).toBeGreaterThan(before), EVENTUALLY)
      // What is sent meanwhile is done in the same moment in which its connection ends, so that it is done without an answer.
      process.kill(server.pid, 'SIGSTOP')
      const killing = opened.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      process.kill(server.pid, 'SIGCONT')
      await killing
    }
    isFinished = true
    await Promise.all(taking)
    const { today } = await counters().readAll('umbrella')
    for (const [name, what] of results) {
      const count = today.get(name) ?? 0
      if (what === 'answered') expect(count).toBe(1)
      else expect(count).toBeLessThanOrEqual(1)
    }
    expect(new Set(results.values())).toEqual(new Set(['answered', 'failed']))
  })

  function everyMethod(): (() => Promise<unknown>)[] {
    const { store } = opened
    return [
      () => store.get('acme', 'key'),
      () => store.set('acme', 'key', 'value'),
      () => store.setIfAbsent('acme', 'key', 'value'),
      () => store.take('acme', 'key'),
      () => store.delete('acme', 'key'),
      () => store.increment('acme', 'number', 1),
      () => store.list('key'),
      () => store.publish('other-news', 'x'),
      () => store.purge('acme'),
      () => store.ping(),
      () => counters().take('acme', one),
      () => counters().read('acme', 'calls'),
      () => counters().readAll('acme'),
      () => counters().put('acme', 'calls', 1),
      () => counters().counted('acme', ['calls']),
      () => counters().clear('acme'),
    ]
  }
})

describe('the store redis and a password', () => {
  test('is let in with it, and not without', async () => {
    const server = await startRedisServer(['--requirepass', 'open sesame'])
    const url = (password: string) => server.url.replace('//', `//:${encodeURIComponent(password)}@`)
    const opened = await openInRedis({ url: url('open sesame') })
    const { received } = await listenTo(opened.store, 'news')
    await opened.store.publish('news', 'for who is in')
    await vi.waitFor(() => expect(received).toEqual(['for who is in']), EVENTUALLY)
    for (const wrong of [url('wrong'), server.url]) {
      const outside = await openInRedis({ url: wrong, timeoutMs: 1_000 }, { url: url('open sesame') })
      await expect(outside.store.counters.take('acme', one)).rejects.toSatisfy(DependencyUnavailable.matches)
      await outside.store.close()
      await outside.cleanUp()
    }
    await opened.store.close()
    await opened.cleanUp()
    await server.stop()
  })
})

describe('the store redis and a cluster', () => {
  let cluster: RedisCluster
  let opened: OpenedInRedis

  beforeAll(async () => {
    cluster = await startRedisCluster('secret')
    const [first, ...others] = cluster.servers.map(({ url }) => url)
    // Who asks is what the first says, for all.
    const nodes = [first?.replace('//', '//:secret@') ?? '', ...others]
    opened = await openInRedis({ nodes, timeoutMs: 500 })
    opened.admin.on('error', () => undefined)
  })
  afterAll(async () => {
    await opened.store.close()
    opened.admin.disconnect()
    await cluster.stop()
  })

  test('one of its nodes is killed: tenants of the others are served, and those of this one when it is back', async () => {
    const { counters } = opened.store
    const tenants = Array.from({ length: 30 }, (_, n) => `tenant-${n}`)
    for (const tenant of tenants) await vi.waitFor(() => counters.take(tenant, one), EVENTUALLY)
    const last = cluster.servers[2] as RedisServer
    await last.kill()
    const outcomes = await Promise.allSettled(tenants.map((tenant) => counters.take(tenant, one)))
    const failed = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    expect(failed.length).toBeGreaterThan(0)
    expect(failed.length).toBeLessThan(tenants.length)
    expect(failed.every(DependencyUnavailable.matches)).toBe(true)
    // A part of the keys is out of reach, so that nothing can be said of all.
    for (const call of [() => opened.store.list('key'), () => opened.store.purge('tenant-1')]) {
      await expect(call()).rejects.toSatisfy(DependencyUnavailable.matches)
    }
    await last.start()
    await vi.waitFor(() => Promise.all(tenants.map((tenant) => counters.take(tenant, one))), EVENTUALLY)
    for (const tenant of tenants) await vi.waitFor(() => opened.store.purge(tenant), EVENTUALLY)
    for (const tenant of tenants) expect((await counters.readAll(tenant)).today).toEqual(new Map())
  })

  test('its nodes stand still for a while: what had no answer is not sent a second time', async () => {
    const { counters } = opened.store
    const tenants = Array.from({ length: 12 }, (_, n) => `standing-${n}`)
    const takeAll = () => Promise.allSettled(tenants.map((tenant) => counters.take(tenant, one)))
    for (const tenant of tenants) await vi.waitFor(() => counters.read(tenant, 'calls'), EVENTUALLY)
    for (const { pid } of cluster.servers) process.kill(pid, 'SIGSTOP')
    try {
      expect((await takeAll()).filter(({ status }) => status === 'fulfilled')).toEqual([])
    } finally {
      for (const { pid } of cluster.servers) process.kill(pid, 'SIGCONT')
    }
    for (const tenant of tenants) {
      await vi.waitFor(() => counters.read(tenant, 'calls'), EVENTUALLY)
      expect((await counters.read(tenant, 'calls')).today ?? 0).toBeLessThanOrEqual(1)
    }
  })

  test('messages are heard again when the node that told them is gone', async () => {
    const { received, gaps } = await listenTo(opened.store, 'news')
    await vi.waitFor(() => expect(gaps).toHaveLength(1), EVENTUALLY)
    const first = cluster.servers[0] as RedisServer
    await first.kill()
    await vi.waitFor(() => expect(gaps).toHaveLength(2), EVENTUALLY)
    await first.start()
    await vi.waitFor(async () => {
      await opened.store.publish('news', 'again')
      expect(received).toContain('again')
    }, EVENTUALLY)
  })
})

/** What each call answered or threw. */
async function repeat<T>(times: number, call: () => Promise<T>): Promise<(T | Error)[]> {
  const results: (T | Error)[] = []
  for (let n = 0; n < times; n++) results.push(await call().catch((error: Error) => error))
  return results
}
