import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { own, queryName, shared, useConnections } from './pool.fixture.ts'
import type { Connections } from './pool.ts'
import type { AcquireRequest, PooledClient } from './pooled-client.ts'

const LIMIT = { code: 'E_TENANT_CONNECTION_LIMIT', status: 503, retryAfterSeconds: 1 }
const { queryBlocked, connectionsOf, query, seen } = useConnections()

const pidOf = async ({ client }: PooledClient): Promise<number> =>
  (await client.query('select pg_backend_pid() as pid')).rows[0].pid

async function use<T>(
  connections: Connections,
  request: AcquireRequest,
  work: (pooled: PooledClient) => Promise<T>,
): Promise<T> {
  const pooled = await connections.acquire(request)
  try {
    return await work(pooled)
  } finally {
    connections.release(pooled, false)
  }
}

describe('the budget', () => {
  test('is not exceeded at the server by thirty tenants with a database each and five requests each', async () => {
    const connections = connectionsOf({ max: 5, perTenant: 3 })
    let most = 0
    const requests = Array.from({ length: 300 }, (_, n) => own(String(n % 30)))
    const looking = async (pooled: PooledClient) => {
      const name = await queryName(pooled)
      most = Math.max(most, (await seen()).length)
      return name
    }
    const names = await Promise.all(requests.map((request) => use(connections, request, looking)))
    expect(names).toEqual(requests.map(({ database }) => database))
    expect(most).toBe(5)
    expect(connections.count()).toMatchObject({ busy: 0, waiting: 0 })
    const { hits, misses } = connections.count()
    expect(hits + misses).toBe(300)
    expect(misses).toBeGreaterThanOrEqual(30)
  })

  test('gives a tenant at most its share, and the rest to other tenants', async () => {
    const connections = connectionsOf({ max: 3, perTenant: 2 })
    const held = [await connections.acquire(shared('a')), await connections.acquire(shared('a'))]
    const third = connections.acquire(shared('a'))
    expect(connections.count()).toMatchObject({ idle: 0, busy: 2, waiting: 1 })
    await use(connections, shared('b'), queryName)
    expect(connections.count()).toMatchObject({ idle: 1, busy: 2, waiting: 1 })
    for (const pooled of held) connections.release(pooled, false)
    connections.release(await third, false)
    expect(connections.count()).toMatchObject({ idle: 3, busy: 0, waiting: 0 })
  })

  test('does not take a client that is in use', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1, waitMs: 50 })
    const held = await connections.acquire(own('a'))
    await expect(connections.acquire(own('b'))).rejects.toMatchObject(LIMIT)
    expect(await queryName(held)).toBe('of a')
    connections.release(held, false)
    expect(await use(connections, own('b'), queryName)).toBe('of b')
    expect(await seen()).toEqual(['of b'])
  })

  test('closes the client with the longest idle time', async () => {
    const connections = connectionsOf({ max: 3 })
    for (const id of ['a', 'b', 'c', 'a']) await use(connections, own(id), queryName)
    expect(connections.count()).toMatchObject({ hits: 1, misses: 3 })
    await use(connections, own('d'), queryName)
    expect(await seen()).toEqual(['of a', 'of c', 'of d'])
  })
})

describe('a client', () => {
  test('is given to the tenant that it served last, among idle clients', async () => {
    const connections = connectionsOf()
    const [a, b] = [await connections.acquire(shared('a')), await connections.acquire(shared('b'))]
    connections.release(a, false)
    connections.release(b, false)
    expect(await use(connections, shared('a'), async (pooled) => pooled)).toBe(a)
    expect(await use(connections, shared('b'), async (pooled) => pooled)).toBe(b)
  })

  test('that is destroyed at its release is not reused and frees its share of the budget', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const spoiled = await connections.acquire(shared('a'))
    const pid = await pidOf(spoiled)
    const waiting = connections.acquire(shared('b'))
    connections.release(spoiled, true)
    const next = await waiting
    expect(await pidOf(next)).not.toBe(pid)
    connections.release(next, false)
  })

  test('that is destroyed during a statement frees its share of the budget', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const stuck = await connections.acquire(shared('a'))
    const pid = await pidOf(stuck)
    const lost = expect(stuck.client.query('select pg_sleep(60)')).rejects.toThrow('Connection terminated')
    connections.release(stuck, true)
    await lost
    expect(await use(connections, shared('b'), queryName)).toBe('')
    await query('select pg_terminate_backend($1)', [pid])
  })

  test('is replaced after the maximum number of schemas, in any order of tenants', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 }, { maxSchemas: 2 })
    const pids = []
    for (const id of ['a', 'b', 'a', 'b', 'a', 'c', 'd']) pids.push(await use(connections, shared(id), pidOf))
    expect(new Set(pids.slice(0, 6)).size).toBe(1)
    expect(pids[6]).not.toBe(pids[5])
  })

  test('is kept for any number of tenants that share tables', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 }, { maxSchemas: 2 })
    const pids = new Set()
    for (const id of ['a', 'b', 'c', 'd']) pids.add(await use(connections, { ...shared(id), schema: null }, pidOf))
    expect(pids.size).toBe(1)
  })

  test('is closed after a long idle time', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const connections = connectionsOf()
    await use(connections, shared('a'), queryName)
    vi.advanceTimersByTime(29_000)
    expect(connections.count().idle).toBe(1)
    vi.advanceTimersByTime(30_000)
    expect(connections.count().idle).toBe(0)
    vi.useRealTimers()
    await eventually(async () => expect(await seen()).toEqual([]))
  })

  test('that the server closes while it is idle is removed', async () => {
    const connections = connectionsOf()
    const pid = await use(connections, own('a'), pidOf)
    await query('select pg_terminate_backend($1)', [pid])
    await eventually(() => expect(connections.count().idle).toBe(0))
    expect(await use(connections, own('a'), pidOf)).not.toBe(pid)
  })

  test('of a dropped database can be closed by the name of the database', async () => {
    const connections = connectionsOf()
    await use(connections, own('a'), queryName)
    await use(connections, own('b'), queryName)
    connections.forget('of a')
    await eventually(async () => expect(await seen()).toEqual(['of b']))
    expect(await use(connections, own('c'), queryName)).toBe('of c')
  })
})

describe('a waiting request', () => {
  /** Records the order in which the requests are served. */
  const queued = (connections: Connections, requests: readonly AcquireRequest[], order: string[], then = () => {}) =>
    requests.map((request) =>
      use(connections, request, async (pooled) => {
        await pooled.client.query('select')
        order.push(request.tenantId)
        then()
      }),
    )
  const many = (request: AcquireRequest, times: number): AcquireRequest[] => Array(times).fill(request)

  test('waits behind requests of its own tenant only', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const order: string[] = []
    await Promise.all(queued(connections, [...many(shared('loud'), 200), shared('quiet'), shared('other')], order))
    expect(order.indexOf('quiet')).toBeLessThanOrEqual(3)
    expect(order.indexOf('other')).toBeLessThanOrEqual(4)
    expect(order).toHaveLength(202)
  })

  test('for another database is served after the reservation of the former client has ended', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const order: string[] = []
    const requests = [...many(own('loud'), 200), ...many(own('quiet'), 2)]
    await Promise.all(queued(connections, requests, order, () => vi.advanceTimersByTime(5)))
    expect(order.indexOf('quiet')).toBeLessThanOrEqual(10)
    expect(order.lastIndexOf('quiet')).toBeLessThanOrEqual(20)
    expect(order).toHaveLength(202)
  })

  test('for the same database is served during the reservation, without a new connection', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const order: string[] = []
    const taking = Array.from({ length: 10 }, (_, n) => own(n % 2 ? 'a' : 'b'))
    await Promise.all(queued(connections, taking, order))
    expect(order).toEqual([...Array(5).fill('b'), ...Array(5).fill('a')])
    expect(connections.count()).toMatchObject({ hits: 8, misses: 2 })
  })

  test('of a tenant with a full queue is rejected immediately; other tenants still wait', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1, queuePerTenant: 2 })
    const held = await connections.acquire(shared('a'))
    const waiting = ['a', 'a', 'b'].map((id) => use(connections, shared(id), queryName))
    await expect(connections.acquire(shared('a'))).rejects.toMatchObject(LIMIT)
    expect(connections.count().waiting).toBe(3)
    connections.release(held, false)
    expect(await Promise.all(waiting)).toEqual(['', '', ''])
    await use(connections, shared('a'), queryName)
  })

  test('is rejected at its timeout, and receives no connection afterwards', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1, waitMs: 10 })
    const held = await connections.acquire(shared('a'))
    await expect(connections.acquire(shared('a'))).rejects.toMatchObject(LIMIT)
    await expect(connections.acquire(own('b'))).rejects.toMatchObject(LIMIT)
    expect(connections.count()).toMatchObject({ idle: 0, busy: 1, waiting: 0 })
    connections.release(held, false)
    expect(connections.count()).toMatchObject({ idle: 1, busy: 0, waiting: 0 })
  })
})

describe('the pool, for a failing server', () => {
  test('serves requests for other databases when one database fails, and releases its share of the budget', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const missing = { tenantId: 'lost', database: 'missing', schema: null }
    const held = await connections.acquire(own('a'))
    const all = Promise.allSettled([
      connections.acquire(missing),
      use(connections, own('b'), queryName),
      connections.acquire(missing),
      use(connections, own('c'), queryName),
    ])
    connections.release(held, false)
    const failed = { status: 'rejected', reason: { message: 'database not found' } }
    expect(await all).toMatchObject([failed, { value: 'of b' }, failed, { value: 'of c' }])
    for (let n = 0; n < 5; n++) await expect(connections.acquire(missing)).rejects.toThrow('database not found')
    expect(connections.count()).toMatchObject({ busy: 0, waiting: 0 })
    expect(await use(connections, own('a'), queryName)).toBe('of a')
  })

  test('ignores the probes of a server that has never answered one, and failed probes', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    for (const result of ['timed out', 'refused'] as const) {
      const connections = connectionsOf({}, { probe: async () => result })
      const held = await connections.acquire(shared('a'))
      const { pending, unblock } = await queryBlocked(held)
      for (let round = 0; round < 4; round++) await vi.advanceTimersByTimeAsync(5_000)
      await unblock()
      expect((await pending).rowCount).toBe(1)
      connections.release(held, false)
    }
  })

  test('waits for a slow server that answers probes', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const connections = connectionsOf()
    const held = await connections.acquire(shared('a'))
    const { pending, unblock } = await queryBlocked(held)
    await vi.advanceTimersByTimeAsync(5_000)
    await unblock()
    expect((await pending).rowCount).toBe(1)
    connections.release(held, false)
    expect(connections.count()).toMatchObject({ idle: 1, busy: 0 })
  })
})

test('a tenant whose connections hang does not prevent connections of other tenants', async () => {
  const { promise: until, resolve: release } = Promise.withResolvers<void>()
  const connections = connectionsOf({ max: 10, perTenant: 5, waitMs: 5_000 }, { until })
  const hanging = ['1', '2', '3', '4', '5'].map((n) => connections.acquire({ ...own('slow'), database: `hangs ${n}` }))
  expect(await use(connections, own('quiet'), queryName)).toBe('of quiet')
  release()
  for (const pooled of await Promise.all(hanging)) connections.release(pooled, false)
})

describe('closing', () => {
  test('rejects waiting and new requests, and waits for clients in use', async () => {
    const connections = connectionsOf()
    const [a, b] = [await connections.acquire(own('a')), await connections.acquire(own('b'))]
    const rejected = expect(connections.acquire(own('c'))).rejects.toThrow('The connections are closed')
    let isClosed = false
    const closing = connections.close().then(() => {
      isClosed = true
    })
    await rejected
    expect(() => connections.acquire(own('a'))).toThrow('The connections are closed')
    expect(await queryName(a)).toBe('of a')
    connections.release(a, false)
    await eventually(async () => expect(await seen()).toEqual(['of b']))
    expect(isClosed).toBe(false)
    connections.release(b, false)
    await closing
    expect(await seen()).toEqual([])
  })

  test('destroys clients that are not released', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const connections = connectionsOf()
    const kept = await connections.acquire(own('a'))
    const closing = connections.close()
    vi.advanceTimersByTime(10_000)
    await closing
    connections.release(kept, false)
    expect(connections.count()).toMatchObject({ idle: 0, busy: 0 })
    vi.useRealTimers()
  })

  test('waits for a connection that is being opened', async () => {
    const connections = connectionsOf()
    const coming = connections.acquire(own('a'))
    const closing = connections.close()
    connections.release(await coming, false)
    await closing
    expect(await seen()).toEqual([])
  })
})
