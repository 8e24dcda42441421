/** The end of a process, and a store that has lost its data: nothing is lost or counted twice. */
import { describe, expect, test } from 'vitest'
import { dateOf, dayOf } from '../../kernel/store/counters.ts'
import { asRecord, openMetrics, STORES, type StoreName } from './metrics.fixture.ts'

describe.each(STORES)('the end of a process with the store %s', (store) => {
  test('the end of a process flushes remaining counts to the store, and rolls them up if the store ends with the process', async () => {
    const own = await openMetrics(store)
    const tenant = await own.tenant()
    await own.opened.tenancy.metrics.increment(tenant, 'exports', 6)
    own.opened.tenancy.metrics.traffic.requestEnded(tenant, 200, 1)
    await own.opened.tenancy.stop()
    const next = await own.opened.open()
    const day = dateOf(dayOf(own.clock.now().getTime()))
    expect(asRecord((await next.metrics.list(tenant)).data)).toEqual({
      [`${day} exports`]: 6,
      [`${day} requests`]: 1,
      [`${day} bytes`]: 1,
    })
    await own.opened.end()
  })
})

/** Without the store memory, which ends with its process. */
const OUTLIVING = STORES.filter((store): store is Exclude<StoreName, 'memory'> => store !== 'memory')

describe.each(OUTLIVING)('the store %s loses its data in the middle of a day', (store) => {
  test('flushed counts are neither lost nor counted twice', async () => {
    const { opened, clock, emptyStore, tenant } = await openMetrics(store)
    const { metrics } = opened.tenancy
    const acme = await tenant()
    const day = dateOf(dayOf(clock.now().getTime()))
    const read = async () => asRecord((await metrics.list(acme)).data)
    await metrics.increment(acme, 'exports', 100)
    await metrics.flush()
    await emptyStore()
    await metrics.increment(acme, 'exports', 7)
    expect(await read()).toEqual({ [`${day} exports`]: 107 })
    await metrics.flush()
    await metrics.flush()
    expect(await read()).toEqual({ [`${day} exports`]: 107 })
    await metrics.increment(acme, 'exports', 200)
    await metrics.flush()
    expect(await read()).toEqual({ [`${day} exports`]: 307 })
    await emptyStore()
    await metrics.flush()
    expect(await read()).toEqual({ [`${day} exports`]: 307 })
    expect((await metrics.listAll({ tenantId: acme })).data).toEqual([
      { tenantId: acme, key: 'exports', period: day, value: 307 },
    ])
    await opened.end()
  })
})
