/**
 * Outages of the store behind a TCP proxy: refused, unresponsive and slow. Counts are neither lost nor counted twice, the policy
 * decides the responses, and the store is used again after its recovery.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { startProxy, type Proxy as Way } from '../../../test/support/proxy.ts'
import { FAULTS, repair, storeBehind } from '../../../test/support/store-outages.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import { DependencyDegraded } from '../../kernel/resilience/resilience.ts'
import { DAY_MS, dateOf, dayOf } from '../../kernel/store/counters.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { asRecord, type MetricsOpened, openMetrics, type Satellites } from './metrics.fixture.ts'

const REFUSED = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503, retryAfterSeconds: 7 }

describe.each(['redis', 'postgres'] as const)('metrics while the store %s', (store) => {
  let way: Way
  let all: MetricsOpened
  let open: Tenancy<Satellites>
  let closed: Tenancy<Satellites>
  let acme: string
  let day: string
  const degraded: EventOf<typeof DependencyDegraded>[] = []
  const logged: string[] = []

  beforeAll(async () => {
    way = await startProxy(inject(`${store}Url`))
    const driver = storeBehind[store](way.url)
    const logger = createLogger({ level: 'warn', write: (line) => void logged.push(line) })
    const resilience = { redis: { metrics: 'fail-open' }, retryAfterSeconds: 7 } as const
    all = await openMetrics(store, { store: driver, logger, resilience })
    open = all.opened.tenancy
    closed = await all.opened.open({ resilience: { redis: { metrics: 'fail-closed' }, retryAfterSeconds: 7 } })
    for (const tenancy of [open, closed]) {
      tenancy.on(DependencyDegraded, (event) => void (event.operation.startsWith('metrics') && degraded.push(event)))
    }
  })
  beforeEach(async () => {
    acme = await all.tenant()
    day = dateOf(dayOf(all.clock.now().getTime()))
    degraded.length = 0
    logged.length = 0
  })
  const comeBack = async () => {
    await repair(way)
    for (const { kernel } of [open, closed]) {
      await eventually(() => kernel.store.sums.read('probe', [day]))
    }
  }
  afterEach(comeBack)
  afterAll(async () => {
    await all.opened.end()
    await way.close()
  })

  const read = async ({ metrics }: Tenancy<Satellites>) => asRecord((await metrics.list(acme)).data)
  const reported = () => degraded.map(({ operation, policy, tenantId }) => [operation, policy, tenantId])

  describe.each(Object.entries(FAULTS))('%s', (_, happen) => {
    test('fail-open counts in the process with an event, and flushes exactly once after the outage', async () => {
      const { metrics } = open
      await metrics.increment(acme, 'exports', 10)
      await metrics.flush()
      await happen(way)
      for (let n = 0; n < 5; n++) {
        await metrics.increment(acme, 'exports')
        metrics.traffic.requestEnded(acme, 500, 100)
        // Rows of earlier rollups stay readable. Each read tries a flush, without a response.
        expect(await read(open)).toEqual({ [`${day} exports`]: 10 })
      }
      await expect(metrics.flush()).rejects.toMatchObject({ code: REFUSED.code })
      expect(reported()).toEqual(expect.arrayContaining([['metrics.read', 'fail-open', acme]]))
      await eventually(() => expect(reported()).toContainEqual(['metrics.handOver', 'fail-open', null]))
      await comeBack()
      // The process flushes without a caller.
      await eventually(async () => {
        const sums = await open.kernel.store.sums.read(acme, [day])
        expect(sums.find(({ name }) => name === 'requests')?.sum).toBe(5)
      })
      const expected = {
        [`${day} exports`]: 15,
        [`${day} requests`]: 5,
        [`${day} errors`]: 5,
        [`${day} bytes`]: 500,
      }
      expect(await read(open)).toEqual(expected)
      await metrics.flush()
      expect(await read(open)).toEqual(expected)
    })

    test('fail-closed responds with 503 and Retry-After, and keeps counts of guards', async () => {
      const { metrics } = closed
      await metrics.increment(acme, 'exports', 10)
      expect(await closed.kernel.store.sums.read(acme, [day])).toMatchObject([{ name: 'exports', sum: 10 }])
      await happen(way)
      await expect(metrics.increment(acme, 'exports')).rejects.toMatchObject(REFUSED)
      await expect(metrics.increment(acme, 'exports', -1)).rejects.toMatchObject({ status: 400 })
      metrics.traffic.requestEnded(acme, 200, 100)
      await expect(metrics.list(acme)).rejects.toMatchObject(REFUSED)
      await expect(metrics.export(acme, 'csv')).rejects.toMatchObject(REFUSED)
      expect(reported().slice(0, 2)).toEqual([
        ['metrics.increment', 'fail-closed', acme],
        ['metrics.read', 'fail-closed', acme],
      ])
      expect((await metrics.listAll({ tenantId: acme })).data).toEqual([])
      await comeBack()
      await metrics.increment(acme, 'exports', 5)
      const { [`${day} exports`]: exports, ...guarded } = await read(closed)
      expect(guarded).toEqual({ [`${day} requests`]: 1, [`${day} bytes`]: 100 })
      // The count without a response may have happened; its caller received 503.
      expect([15, 16]).toContain(exports)
    })
  })

  test('an outage beyond the next day drops older counts, with a log line', async () => {
    const { metrics } = open
    await way.close()
    await metrics.increment(acme, 'exports', 3)
    await expect(metrics.flush()).rejects.toMatchObject({ code: REFUSED.code })
    all.clock.advance(2 * DAY_MS)
    await metrics.increment(acme, 'exports', 4)
    await comeBack()
    expect(await read(open)).toEqual({ [`${dateOf(dayOf(all.clock.now().getTime()))} exports`]: 4 })
    expect(logged.filter((line) => line.includes('counts of an old day could not be kept'))).toHaveLength(1)
  })

  test('the end of a process loses its counts, with a log line', async () => {
    const ending = await all.opened.open()
    await way.close()
    await ending.metrics.increment(acme, 'exports', 3)
    await ending.stop()
    expect(logged.filter((line) => line.includes('could not be flushed, and are lost'))).toHaveLength(1)
    await comeBack()
    expect(await read(open)).toEqual({})
  })
})
