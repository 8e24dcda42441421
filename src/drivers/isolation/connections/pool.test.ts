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
  test('is never exceeded as the server counts, while thirty tenants with a database each want five', async () => {
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

  test('gives a tenant no more than its share, and the rest to others', async () => {
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

  test('never takes a client that is in use', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1, waitMs: 50 })
    const held = await connections.acquire(own('a'))
    await expect(connections.acquire(own('b'))).rejects.toMatchObject(LIMIT)
    expect(await queryName(held)).toBe('of a')
    connections.release(held, false)
    expect(await use(connections, own('b'), queryName)).toBe('of b')
    expect(await seen()).toEqual(['of b'])
  })

  test('closes the client that has been idle the longest', async () => {
    const connections = connectionsOf({ max: 3 })
    for (const id of ['a', 'b', 'c', 'a']) await use(connections, own(id), queryName)
    expect(connections.count()).toMatchObject({ hits: 1, misses: 3 })
    await use(connections, own('d'), queryName)
    expect(await seen()).toEqual(['of a', 'of c', 'of d'])
  })
})

describe('a client', () => {
  test('goes to the tenant that it served last, of those that are idle', async () => {
    const connections = connectionsOf()
    const [a, b] = [await connections.acquire(shared('a')), await connections.acquire(shared('b'))]
    connections.release(a, false)
    connections.release(b, false)
    expect(await use(connections, shared('a'), async (pooled) => pooled)).toBe(a)
    expect(await use(connections, shared('b'), async (pooled) => pooled)).toBe(b)
  })

  test('that is given back to be destroyed is used no more, and its room is another’s', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const spoiled = await connections.acquire(shared('a'))
    const pid = await pidOf(spoiled)
    const waiting = connections.acquire(shared('b'))
    connections.release(spoiled, true)
    const next = await waiting
    expect(await pidOf(next)).not.toBe(pid)
    connections.release(next, false)
  })

  test('that is in the middle of a statement when it is destroyed frees its room too', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const stuck = await connections.acquire(shared('a'))
    const pid = await pidOf(stuck)
    const lost = expect(stuck.client.query('select pg_sleep(60)')).rejects.toThrow('Connection terminated')
    connections.release(stuck, true)
    await lost
    expect(await use(connections, shared('b'), queryName)).toBe('')
    await query('select pg_terminate_backend($1)', [pid])
  })

  test('is replaced when it has seen the tables of as many tenants as it may, however often they took turns', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 }, { maxSchemas: 2 })
    const pids = []
    for (const id of ['a', 'b', 'a', 'b', 'a', 'c', 'd']) pids.push(await use(connections, shared(id), pidOf))
    expect(new Set(pids.slice(0, 6)).size).toBe(1)
    expect(pids[6]).not.toBe(pids[5])
  })

  test('is kept for any number of tenants whose tables are the same ones', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 }, { maxSchemas: 2 })
    const pids = new Set()
    for (const id of ['a', 'b', 'c', 'd']) pids.add(await use(connections, { ...shared(id), schema: null }, pidOf))
    expect(pids.size).toBe(1)
  })

  test('that is idle for long is closed', async () => {
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

  test('that the server ends while it is idle is forgotten', async () => {
    const connections = connectionsOf()
    const pid = await use(connections, own('a'), pidOf)
    await query('select pg_terminate_backend($1)', [pid])
    await eventually(() => expect(connections.count().idle).toBe(0))
    expect(await use(connections, own('a'), pidOf)).not.toBe(pid)
  })

  test('of a database that is dropped can be closed by its name', async () => {
    const connections = connectionsOf()
    await use(connections, own('a'), queryName)
    await use(connections, own('b'), queryName)
    connections.forget('of a')
    await eventually(async () => expect(await seen()).toEqual(['of b']))
    expect(await use(connections, own('c'), queryName)).toBe('of c')
  })
})

describe('who waits', () => {
  /** Notes who is served, in that order. */
  const queued = (connections: Connections, requests: readonly AcquireRequest[], order: string[], then = () => {}) =>
    requests.map((request) =>
      use(connections, request, async (pooled) => {
        await pooled.client.query('select')
        order.push(request.tenantId)
        then()
      }),
    )
  const many = (request: AcquireRequest, times: number): AcquireRequest[] => Array(times).fill(request)

  test('waits behind its own tenant: two hundred of one are not in front of another’s', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const order: string[] = []
    await Promise.all(queued(connections, [...many(shared('loud'), 200), shared('quiet'), shared('other')], order))
    expect(order.indexOf('quiet')).toBeLessThanOrEqual(3)
    expect(order.indexOf('other')).toBeLessThanOrEqual(4)
    expect(order).toHaveLength(202)
  })

  test('for another database gets it when the turn of the one before is over', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const order: string[] = []
    const requests = [...many(own('loud'), 200), ...many(own('quiet'), 2)]
    await Promise.all(queued(connections, requests, order, () => vi.advanceTimersByTime(5)))
    expect(order.indexOf('quiet')).toBeLessThanOrEqual(10)
    expect(order.lastIndexOf('quiet')).toBeLessThanOrEqual(20)
    expect(order).toHaveLength(202)
  })

  test('for the same database goes on as long as its turn lasts, and connections are not made for each', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const connections = connectionsOf({ max: 1, perTenant: 1 })
    const order: string[] = []
    const taking = Array.from({ length: 10 }, (_, n) => own(n % 2 ? 'a' : 'b'))
    await Promise.all(queued(connections, taking, order))
    expect(order).toEqual([...Array(5).fill('b'), ...Array(5).fill('a')])
    expect(connections.count()).toMatchObject({ hits: 8, misses: 2 })
  })

  test('is refused at once when as many of its tenant wait as may; others are not', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1, queuePerTenant: 2 })
    const held = await connections.acquire(shared('a'))
    const waiting = ['a', 'a', 'b'].map((id) => use(connections, shared(id), queryName))
    await expect(connections.acquire(shared('a'))).rejects.toMatchObject(LIMIT)
    expect(connections.count().waiting).toBe(3)
    connections.release(held, false)
    expect(await Promise.all(waiting)).toEqual(['', '', ''])
    await use(connections, shared('a'), queryName)
  })

  test('is refused when its time is up, and is given nothing afterwards', async () => {
    const connections = connectionsOf({ max: 1, perTenant: 1, waitMs: 10 })
    const held = await connections.acquire(shared('a'))
    await expect(connections.acquire(shared('a'))).rejects.toMatchObject(LIMIT)
    await expect(connections.acquire(own('b'))).rejects.toMatchObject(LIMIT)
    expect(connections.count()).toMatchObject({ idle: 0, busy: 1, waiting: 0 })
    connections.release(held, false)
    expect(connections.count()).toMatchObject({ idle: 1, busy: 0, waiting: 0 })
  })
})

describe('a server that fails', () => {
  test('at one database lets those who wait for others go on, and takes no room for ever', async () => {
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
    const failed = { status: 'rejected', reason: { message: 'there is no such database' } }
    expect(await all).toMatchObject([failed, { value: 'of b' }, failed, { value: 'of c' }])
    for (let n = 0; n < 5; n++) await expect(connections.acquire(missing)).rejects.toThrow('no such database')
    expect(connections.count()).toMatchObject({ busy: 0, waiting: 0 })
    expect(await use(connections, own('a'), queryName)).toBe('of a')
  })

  test('that has never answered a probe, and a probe that fails, say nothing', async () => {
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

  test('to answer soon, but is there, is waited for', async () => {
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

test('a tenant whose connections hang keeps nobody else’s from being made', async () => {
  const { promise: until, resolve: release } = Promise.withResolvers<void>()
  const connections = connectionsOf({ max: 10, perTenant: 5, waitMs: 5_000 }, { until })
  const hanging = ['1', '2', '3', '4', '5'].map((n) => connections.acquire({ ...own('slow'), database: `hangs ${n}` }))
  expect(await use(connections, own('quiet'), queryName)).toBe('of quiet')
  release()
  for (const pooled of await Promise.all(hanging)) connections.release(pooled, false)
})

describe('closing', () => {
  test('refuses who waits and who comes, and waits for what is in use', async () => {
    const connections = connectionsOf()
    const [a, b] = [await connections.acquire(own('a')), await connections.acquire(own('b'))]
    const refused = expect(connections.acquire(own('c'))).rejects.toThrow('the connections are closed')
    let isClosed = false
    const closing = connections.close().then(() => {
      isClosed = true
    })
    await refused
    expect(() => connections.acquire(own('a'))).toThrow('the connections are closed')
    expect(await queryName(a)).toBe('of a')
    connections.release(a, false)
    await eventually(async () => expect(await seen()).toEqual(['of b']))
    expect(isClosed).toBe(false)
    connections.release(b, false)
    await closing
    expect(await seen()).toEqual([])
  })

  test('takes away what nobody gives back', async () => {
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

  test('waits for a connection that is being made', async () => {
    const connections = connectionsOf()
    const coming = connections.acquire(own('a'))
    const closing = connections.close()
    connections.release(await coming, false)
    await closing
    expect(await seen()).toEqual([])
  })
})
