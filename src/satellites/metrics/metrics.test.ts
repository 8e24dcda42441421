import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { DAY_MS, dateOf, dayOf } from '../../kernel/counters.ts'
import { uuidv7 } from '../../kernel/ids.ts'
import { eventually } from '../../testing/tenancy.ts'
import type { TenantMetrics } from './index.ts'
import { asRecord, type MetricsOpened, openMetrics, STORES, type StoreName } from './metrics.fixture.ts'

const NOT_FOUND = { code: 'E_TENANT_NOT_FOUND', status: 404 }
const INVALID = { code: 'E_INVALID_REQUEST', status: 400 }

describe.each(STORES)('metrics on the store %s', (store) => {
  let all: MetricsOpened
  let metrics: TenantMetrics
  let acme: string

  beforeAll(async () => {
    all = await openMetrics(store)
    metrics = all.opened.tenancy.metrics
  })
  beforeEach(async () => {
    acme = await all.tenant()
  })
  afterAll(() => all.opened.end())

  const date = (back = 0) => dateOf(dayOf(all.clock.now().getTime()) - back)
  const read = async (tenant = acme, filter = {}) => asRecord((await metrics.list(tenant, filter)).data)
  const rows = async (tenant = acme) => {
    const { rows } = await all.opened.tenancy.kernel.database.sql(
      'select day::text, key, value from multitenancy.metric_sums where tenant_id = $1 order by day, key, value',
      [tenant],
    )
    return rows.map(({ day, key, value }) => `${day} ${key} ${value}`)
  }
  /** Of another process, beside which this one goes on; the memory of one is nobody else's. */
  const another = () => (store === 'memory' ? Promise.resolve(all.opened.tenancy) : all.opened.open())

  test('what is counted is read at once, by key', async () => {
    expect(await metrics.list(acme)).toEqual({ data: [], nextCursor: null })
    await metrics.increment(acme, 'exports')
    await metrics.increment(acme, 'exports', 4)
    await metrics.increment(acme, 'mails.sent', 2 ** 40)
    await metrics.increment(acme, 'nothing', 0)
    metrics.traffic.answered(acme, 200, 1_000)
    metrics.traffic.answered(acme, 404, 20)
    metrics.traffic.answered(acme, 503, 3)
    metrics.traffic.answered(acme, 0, 0)
    expect(await read()).toEqual({
      [`${date()} exports`]: 5,
      [`${date()} mails.sent`]: 2 ** 40,
      [`${date()} requests`]: 4,
      [`${date()} errors`]: 1,
      [`${date()} bytes`]: 1_023,
    })
    expect(await read(acme, { key: 'exports' })).toEqual({ [`${date()} exports`]: 5 })
    expect(await read(acme, { key: 'absent' })).toEqual({})
    expect(await rows()).toEqual([])
  })

  test('what is flushed is the same, however often and by however many at once', async () => {
    const other = await another()
    await metrics.increment(acme, 'exports', 5)
    await other.metrics.increment(acme, 'exports', 6)
    await other.metrics.flush()
    await metrics.flush()
    expect(await rows()).toEqual([`${date()} exports 11`])
    expect((await metrics.flush()).written).toBe(0)
    await metrics.increment(acme, 'exports', 1)
    await Promise.all(Array.from({ length: 12 }, (_, n) => (n % 2 ? metrics : other.metrics).flush()))
    expect(await rows()).toEqual([`${date()} exports 12`])
    expect(await read()).toEqual({ [`${date()} exports`]: 12 })
    expect(asRecord((await other.metrics.list(acme)).data)).toEqual({ [`${date()} exports`]: 12 })
  })

  test('what is counted while it is flushed is in this flush or the next', async () => {
    const counting = Array.from({ length: 200 }, async (_, n) => {
      await metrics.increment(acme, 'exports')
      if (n % 20 === 0) await metrics.flush()
    })
    await Promise.all(counting)
    await metrics.flush()
    expect(await rows()).toEqual([`${date()} exports 200`])
  })

  test('a day ends at midnight UTC: what was counted before is of it, whenever it is handed over and flushed', async () => {
    const day = dayOf(all.clock.now().getTime())
    all.clock.set(new Date((day + 1) * DAY_MS - 1))
    await metrics.increment(acme, 'exports', 3)
    metrics.traffic.answered(acme, 200, 7)
    all.clock.advance(1)
    await metrics.increment(acme, 'exports', 4)
    const expected = { [`${date(1)} exports`]: 3, [`${date(1)} requests`]: 1, [`${date(1)} bytes`]: 7 }
    expect(await read()).toEqual({ ...expected, [`${date()} exports`]: 4 })
    all.clock.advance(DAY_MS - 1)
    await metrics.increment(acme, 'exports', 1)
    all.clock.advance(1)
    await metrics.flush()
    expect(await rows()).toEqual([
      `${date(2)} bytes 7`,
      `${date(2)} exports 3`,
      `${date(2)} requests 1`,
      `${date(1)} exports 5`,
    ])
    expect(await read()).toEqual({
      [`${date(2)} exports`]: 3,
      [`${date(2)} requests`]: 1,
      [`${date(2)} bytes`]: 7,
      [`${date(1)} exports`]: 5,
    })
  })

  test('a process whose clock is ahead is flushed with the others', async () => {
    await metrics.increment(acme, 'exports', 1)
    all.clock.advance(DAY_MS)
    await metrics.increment(acme, 'exports', 2)
    await metrics.list(acme)
    all.clock.advance(-DAY_MS)
    await metrics.flush()
    expect(await rows()).toEqual([`${date()} exports 1`, `${date(-1)} exports 2`])
    all.clock.advance(DAY_MS)
  })

  test('what nobody flushed for two days is flushed then', async () => {
    await metrics.increment(acme, 'exports', 9)
    await metrics.list(acme)
    all.clock.advance(2 * DAY_MS)
    await metrics.flush()
    expect(await rows()).toEqual([`${date(2)} exports 9`])
    await metrics.increment(acme, 'exports', 1)
    await metrics.flush()
    expect(await rows()).toEqual([`${date(2)} exports 9`, `${date()} exports 1`])
  })

  test.each([
    ['that never was', () => 'nobody'],
    ['of an id that cannot be', () => 'No Id'],
  ])('a tenant %s is refused, and leaves nothing', async (_, id) => {
    await expect(metrics.increment(id(), 'exports')).rejects.toMatchObject(NOT_FOUND)
    await expect(metrics.list(id())).rejects.toMatchObject(NOT_FOUND)
    await expect(metrics.export(id(), 'csv')).rejects.toMatchObject(NOT_FOUND)
    expect(await all.opened.tenancy.kernel.store.sums.read(id(), [date()])).toEqual([])
  })

  test('a deleted tenant counts nothing more, and what it has can be read', async () => {
    await metrics.increment(acme, 'exports', 3)
    await all.opened.tenancy.tenants.delete(acme)
    await expect(metrics.increment(acme, 'exports')).rejects.toMatchObject(NOT_FOUND)
    await metrics.flush()
    expect(await read()).toEqual({ [`${date()} exports`]: 3 })
  })

  test.each([['no key'], [''], ['.x'], ['x'.repeat(65)], ['requests'], ['errors'], ['bytes'], ['__proto__']])(
    'the key %j is refused',
    async (key) => {
      await expect(metrics.increment(acme, key)).rejects.toMatchObject(INVALID)
      expect(await read()).toEqual({})
    },
  )

  test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])('an amount of %d is refused', async (amount) => {
    await expect(metrics.increment(acme, 'exports', amount)).rejects.toMatchObject(INVALID)
    expect(await read()).toEqual({})
  })

  test('a key may be called as a member of every object is', async () => {
    await metrics.increment(acme, 'constructor', 2)
    await metrics.increment(acme, 'toString', 3)
    await metrics.flush()
    expect(await read()).toEqual({ [`${date()} constructor`]: 2, [`${date()} toString`]: 3 })
  })

  test('a sum stands still where a number would not be exact any more', async () => {
    await metrics.increment(acme, 'bytes.out', Number.MAX_SAFE_INTEGER)
    await metrics.increment(acme, 'bytes.out', 5)
    await metrics.flush()
    await metrics.increment(acme, 'bytes.out', 5)
    expect(await read()).toEqual({ [`${date()} bytes.out`]: Number.MAX_SAFE_INTEGER })
  })

  test('a purge forgets everything of exactly that tenant, and a flush does not bring it back', async () => {
    const { tenancy } = all.opened
    const other = await all.tenant()
    const { id } = await tenancy.tenants.create({ id: `gone-${uuidv7().slice(-12)}`, name: 'Gone' })
    await tenancy.kernel.database.sql(`update multitenancy.tenants set status = 'active' where id = $1`, [id])
    for (const tenant of [id, other]) await metrics.increment(tenant, 'exports', 3)
    await metrics.flush()
    await metrics.increment(id, 'exports', 4)
    await tenancy.tenants.delete(id)
    all.clock.advance(31 * DAY_MS)
    const [before] = await rows(other)
    expect(await tenancy.tenants.installation.purge(id)).toBe(true)
    await metrics.flush()
    expect(await rows(id)).toEqual([])
    expect(await rows(other)).toEqual([before])
    metrics.traffic.answered(id, 200, 1) // a request that was under way
    await metrics.flush()
    expect(await rows(id)).toEqual([])
    await expect(metrics.list(id)).rejects.toMatchObject(NOT_FOUND)
  })

  test('a flush waits for a purge that is under way, and leaves nothing behind', async () => {
    const { database } = all.opened.tenancy.kernel
    await metrics.increment(acme, 'exports', 3)
    await all.opened.tenancy.tenants.delete(acme)
    let flushed: Promise<unknown> | undefined
    await database.transaction(async () => {
      await database.sql('update multitenancy.tenants set purged_at = now() where id = $1', [acme])
      flushed = database.outside(() => metrics.flush())
      await eventually(async () => {
        const { rows } = await database.outside(() =>
          database.sql(
            `select count(*) as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          ),
        )
        expect(rows[0].waiting).toBe(1)
      })
    })
    await flushed
    expect(await rows()).toEqual([])
  })

  test('what is left at the end is handed over, and by a store that ends with the process flushed', async () => {
    const own = await openMetrics(store)
    const tenant = await own.tenant()
    await own.opened.tenancy.metrics.increment(tenant, 'exports', 6)
    own.opened.tenancy.metrics.traffic.answered(tenant, 200, 1)
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

/** The store memory ends with its process, which flushes it. */
const OUTLIVING = STORES.filter((store): store is Exclude<StoreName, 'memory'> => store !== 'memory')

describe.each(OUTLIVING)('the store %s that has lost its data in the middle of a day', (store) => {
  test('nothing that was flushed is lost, or counted twice', async () => {
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
