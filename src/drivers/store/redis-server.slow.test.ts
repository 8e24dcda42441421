/** Tests the store redis on a separate server, which is killed, stopped or loses its scripts; and on a cluster. */
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

await storeSuite('redis, a cluster of three', async () => {
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
  ['may evict any key', ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'], ['store.evicts']],
  ['rejects writes when it is full', ['--maxmemory', '100mb', '--maxmemory-policy', 'noeviction'], []],
  ['has no memory limit', ['--maxmemory-policy', 'allkeys-lru'], []],
])('the doctor on a server that %s', async (_, settings, codes) => {
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

describe('the store redis on a server', () => {
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

  test('that loses its scripts during calls of take neither loses counts nor counts twice', async () => {
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

  test('that loses its scripts during calls of clear and counted loses no counts', async () => {
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

  test('that is killed fails calls immediately, and the store reconnects when the server is back', async () => {
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

  test('without free memory fails new entries with E_DEPENDENCY_UNAVAILABLE', async () => {
    await counters().take('full', one)
    await opened.admin.config('SET', 'maxmemory', '1')
    await expect(counters().take('acme', one)).rejects.toSatisfy(DependencyUnavailable.matches)
    await expect(opened.store.set('acme', 'key', 'value')).rejects.toSatisfy(DependencyUnavailable.matches)
    await expect(counters().clear('full')).rejects.toSatisfy(DependencyUnavailable.matches)
    await opened.admin.config('SET', 'maxmemory', '0')
    expect(await counters().take('full', one)).toMatchObject({ usages: [2] })
    expect((await counters().counted('full', ['calls'])).today).toEqual(new Map([['calls', 2]]))
  })

  test('that is a replica for a while fails calls during this time', async () => {
    await opened.admin.call('REPLICAOF', '127.0.0.1', '1')
    await expect(counters().take('acme', one)).rejects.toSatisfy(DependencyUnavailable.matches)
    await opened.admin.call('REPLICAOF', 'NO', 'ONE')
    await vi.waitFor(() => counters().take('acme', one), EVENTUALLY)
  })

  test('that is stopped fails the first calls by timeout and later calls immediately, and serves them again afterwards', async () => {
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

  test('that closes connections fails or executes the commands in flight, and never twice', async () => {
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
        // While the server is unavailable, calls are not even sent.
        if (results.get(name) === 'failed') await vi.waitFor(() => opened.store.ping(), EVENTUALLY)
      }
    })
    for (let kills = 0; kills < 10; kills++) {
      const before = answered()
      await vi.waitFor(() => expect(answered()).toBeGreaterThan(before), EVENTUALLY)
      // The stopped server executes the commands at the moment when it closes their connection, and so without a
      // response.
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

describe('the store redis with a password', () => {
  test('is accepted with the right password only', async () => {
    const server = await startRedisServer(['--requirepass', 'open sesame'])
    const url = (password: string) => server.url.replace('//', `//:${encodeURIComponent(password)}@`)
    const opened = await openInRedis({ url: url('open sesame') })
    const { received } = await listenTo(opened.store, 'news')
    await opened.store.publish('news', 'for authenticated clients')
    await vi.waitFor(() => expect(received).toEqual(['for authenticated clients']), EVENTUALLY)
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

describe('the store redis on a cluster', () => {
  let cluster: RedisCluster
  let opened: OpenedInRedis

  beforeAll(async () => {
    cluster = await startRedisCluster('secret')
    const [first, ...others] = cluster.servers.map(({ url }) => url)
    // The first URL has the credentials for all nodes.
    const nodes = [first?.replace('//', '//:secret@') ?? '', ...others]
    opened = await openInRedis({ nodes, timeoutMs: 500 })
    opened.admin.on('error', () => undefined)
  })
  afterAll(async () => {
    await opened.store.close()
    opened.admin.disconnect()
    await cluster.stop()
  })

  test('serves tenants of the other nodes when one is killed, and its own tenants when it is back', async () => {
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
    // Some keys are unreachable, so that calls about all keys fail.
    for (const call of [() => opened.store.list('key'), () => opened.store.purge('tenant-1')]) {
      await expect(call()).rejects.toSatisfy(DependencyUnavailable.matches)
    }
    await last.start()
    await vi.waitFor(() => Promise.all(tenants.map((tenant) => counters.take(tenant, one))), EVENTUALLY)
    for (const tenant of tenants) await vi.waitFor(() => opened.store.purge(tenant), EVENTUALLY)
    for (const tenant of tenants) expect((await counters.readAll(tenant)).today).toEqual(new Map())
  })

  test('does not send a command again after a timeout of stopped nodes', async () => {
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

  test('delivers messages again after the subscribed node is lost', async () => {
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

/** Returns the result or the error of each call. */
async function repeat<T>(times: number, call: () => Promise<T>): Promise<(T | Error)[]> {
  const results: (T | Error)[] = []
  for (let n = 0; n < times; n++) results.push(await call().catch((error: Error) => error))
  return results
}
