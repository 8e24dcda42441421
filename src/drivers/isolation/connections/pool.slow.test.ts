/** Tests connections to a server that becomes unresponsive, and to one that refuses connections for a while. */
import { describe, expect, test, vi } from 'vitest'
import { startProxy } from '../../../../test/support/proxy.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { own, queryName, shared, useConnections } from './pool.fixture.ts'

const environment = useConnections()
const { connectionsOf, query } = environment

/** Waits in real time for responses from the network, although the test has a fake clock. */
const answered = () => query('select pg_sleep(0.1)')

describe('the pool, for a failing server', () => {
  test('probes a server that does not respond, and then fails its statements', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const proxy = await startProxy(environment.url)
    const connections = connectionsOf({ max: 2 }, { url: proxy.url })
    const [held, idle] = [await connections.acquire(shared('a')), await connections.acquire(shared('b'))]
    connections.release(idle, false)
    await vi.advanceTimersByTimeAsync(5_000) // the first response, after which the server is known to answer probes
    await answered()
    proxy.blackhole()
    const asked = held.client.query('select 1').catch((error: Error) => error.message)
    for (let probe = 0; probe < 2; probe++) {
      await vi.advanceTimersByTimeAsync(5_000)
      await answered()
    }
    await vi.advanceTimersByTimeAsync(1_000)
    expect(await asked).toBe('The server did not respond in time')
    connections.release(held, true)
    vi.useRealTimers()
    await eventually(() => expect(connections.count()).toMatchObject({ idle: 0, busy: 0 }))
    await proxy.close()
  })

  test('has its whole budget free when the server is back', async () => {
    const proxy = await startProxy(environment.url)
    const connections = connectionsOf({ max: 3, perTenant: 3 }, { url: proxy.url })
    const idle = [await connections.acquire(own('a')), await connections.acquire(own('b'))]
    for (const pooled of idle) connections.release(pooled, false)
    const held = await connections.acquire(own('c'))
    await proxy.close()
    await eventually(() => expect(connections.count()).toMatchObject({ idle: 0, busy: 1, waiting: 0 }))
    await expect(held.client.query('select')).rejects.toThrow()
    const refused = Array.from({ length: 6 }, (_, n) => connections.acquire(own(String(n))))
    for (const one of await Promise.allSettled(refused)) {
      expect(one).toMatchObject({ status: 'rejected', reason: { code: 'ECONNREFUSED' } })
    }
    connections.release(held, true)
    await proxy.open()
    const back = await Promise.all(['a', 'b', 'c'].map((id) => connections.acquire(own(id))))
    expect(await Promise.all(back.map(queryName))).toEqual(['of a', 'of b', 'of c'])
    for (const pooled of back) connections.release(pooled, false)
    await connections.close()
    await proxy.close()
  })
})
