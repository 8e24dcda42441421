/** Counts: readable immediately, flushed once, on the right day. Rejected keys and amounts. */
import { describe, expect, test } from 'vitest'
import { DAY_MS, dayOf } from '../../kernel/store/counters.ts'
import { asRecord, metricsOn, STORES } from './metrics.fixture.ts'

const INVALID = { code: 'E_INVALID_REQUEST', status: 400 }

describe.each(STORES)('metrics on the store %s', (store) => {
  const fixture = metricsOn(store)
  const { date, read, rows } = fixture

  /** A second process on the same store. The store memory cannot be shared. */
  const another = () => (store === 'memory' ? Promise.resolve(fixture.opened.tenancy) : fixture.opened.open())

  test('counts are readable immediately by key', async () => {
    expect(await fixture.metrics.list(fixture.acme)).toEqual({ data: [], nextCursor: null })
    await fixture.metrics.increment(fixture.acme, 'exports')
    await fixture.metrics.increment(fixture.acme, 'exports', 4)
    await fixture.metrics.increment(fixture.acme, 'mails.sent', 2 ** 40)
    await fixture.metrics.increment(fixture.acme, 'nothing', 0)
    fixture.metrics.traffic.requestEnded(fixture.acme, 200, 1_000)
    fixture.metrics.traffic.requestEnded(fixture.acme, 404, 20)
    fixture.metrics.traffic.requestEnded(fixture.acme, 503, 3)
    fixture.metrics.traffic.requestEnded(fixture.acme, 0, 0)
    expect(await read()).toEqual({
      [`${date()} exports`]: 5,
      [`${date()} mails.sent`]: 2 ** 40,
      [`${date()} requests`]: 4,
      [`${date()} errors`]: 1,
      [`${date()} bytes`]: 1_023,
    })
    expect(await read(fixture.acme, { key: 'exports' })).toEqual({ [`${date()} exports`]: 5 })
    expect(await read(fixture.acme, { key: 'absent' })).toEqual({})
    expect(await rows()).toEqual([])
  })

  test('repeated and concurrent flushes do not change the sums', async () => {
    const other = await another()
    await fixture.metrics.increment(fixture.acme, 'exports', 5)
    await other.metrics.increment(fixture.acme, 'exports', 6)
    await other.metrics.flush()
    await fixture.metrics.flush()
    expect(await rows()).toEqual([`${date()} exports 11`])
    expect((await fixture.metrics.flush()).written).toBe(0)
    await fixture.metrics.increment(fixture.acme, 'exports', 1)
    await Promise.all(Array.from({ length: 12 }, (_, n) => (n % 2 ? fixture.metrics : other.metrics).flush()))
    expect(await rows()).toEqual([`${date()} exports 12`])
    expect(await read()).toEqual({ [`${date()} exports`]: 12 })
    expect(asRecord((await other.metrics.list(fixture.acme)).data)).toEqual({ [`${date()} exports`]: 12 })
  })

  test('a count during a flush belongs to this flush or the next one', async () => {
    const counting = Array.from({ length: 200 }, async (_, n) => {
      await fixture.metrics.increment(fixture.acme, 'exports')
      if (n % 20 === 0) await fixture.metrics.flush()
    })
    await Promise.all(counting)
    await fixture.metrics.flush()
    expect(await rows()).toEqual([`${date()} exports 200`])
  })

  test('a day ends at midnight UTC, and earlier counts belong to it, regardless of later flushes and rollups', async () => {
    const day = dayOf(fixture.clock.now().getTime())
    fixture.clock.set(new Date((day + 1) * DAY_MS - 1))
    await fixture.metrics.increment(fixture.acme, 'exports', 3)
    fixture.metrics.traffic.requestEnded(fixture.acme, 200, 7)
    fixture.clock.advance(1)
    await fixture.metrics.increment(fixture.acme, 'exports', 4)
    const expected = { [`${date(1)} exports`]: 3, [`${date(1)} requests`]: 1, [`${date(1)} bytes`]: 7 }
    expect(await read()).toEqual({ ...expected, [`${date()} exports`]: 4 })
    fixture.clock.advance(DAY_MS - 1)
    await fixture.metrics.increment(fixture.acme, 'exports', 1)
    fixture.clock.advance(1)
    await fixture.metrics.flush()
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

  test('counts of a process with a fast clock are rolled up with the others', async () => {
    await fixture.metrics.increment(fixture.acme, 'exports', 1)
    fixture.clock.advance(DAY_MS)
    await fixture.metrics.increment(fixture.acme, 'exports', 2)
    await fixture.metrics.list(fixture.acme)
    fixture.clock.advance(-DAY_MS)
    await fixture.metrics.flush()
    expect(await rows()).toEqual([`${date()} exports 1`, `${date(-1)} exports 2`])
    fixture.clock.advance(DAY_MS)
  })

  test('a rollup after two days includes all counts', async () => {
    await fixture.metrics.increment(fixture.acme, 'exports', 9)
    await fixture.metrics.list(fixture.acme)
    fixture.clock.advance(2 * DAY_MS)
    await fixture.metrics.flush()
    expect(await rows()).toEqual([`${date(2)} exports 9`])
    await fixture.metrics.increment(fixture.acme, 'exports', 1)
    await fixture.metrics.flush()
    expect(await rows()).toEqual([`${date(2)} exports 9`, `${date()} exports 1`])
  })

  test.each([['no key'], [''], ['.x'], ['x'.repeat(65)], ['requests'], ['errors'], ['bytes'], ['__proto__']])(
    'rejects the key %j',
    async (key) => {
      await expect(fixture.metrics.increment(fixture.acme, key)).rejects.toMatchObject(INVALID)
      expect(await read()).toEqual({})
    },
  )

  test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])('rejects the amount %d', async (amount) => {
    await expect(fixture.metrics.increment(fixture.acme, 'exports', amount)).rejects.toMatchObject(INVALID)
    expect(await read()).toEqual({})
  })

  test('accepts a key that is the name of an object member', async () => {
    await fixture.metrics.increment(fixture.acme, 'constructor', 2)
    await fixture.metrics.increment(fixture.acme, 'toString', 3)
    await fixture.metrics.flush()
    expect(await read()).toEqual({ [`${date()} constructor`]: 2, [`${date()} toString`]: 3 })
  })

  test('a sum stops at the largest exact integer', async () => {
    await fixture.metrics.increment(fixture.acme, 'bytes.out', Number.MAX_SAFE_INTEGER)
    await fixture.metrics.increment(fixture.acme, 'bytes.out', 5)
    await fixture.metrics.flush()
    await fixture.metrics.increment(fixture.acme, 'bytes.out', 5)
    expect(await read()).toEqual({ [`${date()} bytes.out`]: Number.MAX_SAFE_INTEGER })
  })
})
