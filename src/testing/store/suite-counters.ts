/** Group of `storeSuite`: counters with a daily limit. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import { dateOf, dayOf, type Take } from '../../kernel/store/counters.ts'
import type { OpenedStore } from './opened-store.ts'

const DAY_SECONDS = 86_400
const MANY = { calls: 5_000, limit: 1_000 }

export function countersSuite(
  { beforeEach, describe, expect, test }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('counters of a day', () => {
    let tenant: string
    const rejection = expect.objectContaining({ code: InvalidRequest.code })
    const counters = () => opened().store.counters
    const take = (name: string, amount: number, limit: number | null = null) =>
      counters().take(tenant, [{ name, amount, limit }])
    const todayOf = async (name: string) => (await counters().read(tenant, name)).today
    const advanceSeconds = (seconds: number) => opened().advance(seconds * 1_000)
    const untilMidnight = async () => {
      const { nowMs } = await counters().read(tenant, 'any')
      return DAY_SECONDS - (nowMs % (DAY_SECONDS * 1_000)) / 1_000
    }

    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
    })

    test('a counter starts at 0, and a take returns its new value', async () => {
      expect(await todayOf('calls')).toBeNull()
      expect(await take('calls', 3)).toMatchObject({ isAllowed: true, usages: [3] })
      expect(await take('calls', 4)).toMatchObject({ isAllowed: true, usages: [7] })
      expect(await todayOf('calls')).toBe(7)
    })

    test('a take above the limit is denied and changes nothing', async () => {
      expect(await take('calls', 9, 10)).toMatchObject({ isAllowed: true, usages: [9] })
      expect(await take('calls', 2, 10)).toMatchObject({ isAllowed: false, usages: [9] })
      expect(await take('calls', 1, 10)).toMatchObject({ isAllowed: true, usages: [10] })
      expect(await take('calls', 1, 10)).toMatchObject({ isAllowed: false, usages: [10] })
      expect(await todayOf('calls')).toBe(10)
    })

    test('a limit of 0 allows nothing and creates no counter', async () => {
      expect(await take('calls', 1, 0)).toMatchObject({ isAllowed: false, usages: [0] })
      expect(await todayOf('calls')).toBeNull()
      expect((await counters().readAll(tenant)).today).toEqual(new Map())
    })

    test('a limit may be a fraction', async () => {
      expect(await take('calls', 2, 2.5)).toMatchObject({ isAllowed: true, usages: [2] })
      expect(await take('calls', 1, 2.5)).toMatchObject({ isAllowed: false, usages: [2] })
      expect(await take('calls', 1, 0.5)).toMatchObject({ isAllowed: false, usages: [2] })
    })

    test('each take applies its own limit', async () => {
      const results = await Promise.all([take('calls', 5, 5), take('calls', 5, 100), take('calls', 5, null)])
      expect(results.map(({ isAllowed }) => isAllowed)).toEqual([true, true, true])
      expect(await take('calls', 1, 14)).toMatchObject({ isAllowed: false, usages: [15] })
      expect(await take('calls', 1, 1e300)).toMatchObject({ isAllowed: true, usages: [16] })
    })

    test('an amount of 0 is allowed above every limit and writes nothing', async () => {
      expect(await take('calls', 0, 0)).toMatchObject({ isAllowed: true, usages: [0] })
      expect(await todayOf('calls')).toBeNull()
      await take('calls', 8)
      expect(await take('calls', 0, 1)).toMatchObject({ isAllowed: true, usages: [8] })
      const looks = await Promise.all([take('calls', 0), take('calls', 2), take('calls', 0), take('other', 0)])
      expect(looks.map(({ usages }) => usages)).toEqual([[8], [10], [10], [0]])
    })

    test('counters are separate by tenant and name', async () => {
      await take('calls', 1)
      await counters().take(`${tenant}-2`, [{ name: 'calls', amount: 5, limit: null }])
      await take('calls2', 7)
      expect(await todayOf('calls')).toBe(1)
      expect((await counters().read(`${tenant}-2`, 'calls')).today).toBe(5)
    })

    test.each([
      'api.calls',
      'api-calls',
      'api_calls',
      'constructor',
      'toString',
      'valueOf',
      '0',
      'names',
      'snap',
      'n'.repeat(64),
    ])('a counter can have the name %s', async (name) => {
      await take(name, 2)
      await counters().put(tenant, name, 3)
      expect(await counters().read(tenant, name)).toMatchObject({ today: 2, gauge: 3 })
      const { today, gauges } = await counters().readAll(tenant)
      expect([today, gauges]).toEqual([new Map([[name, 2]]), new Map([[name, 3]])])
    })

    test('a tenant id of any form has counters', async () => {
      for (const name of ['schlüssel:日本語:🔑', 'a:b', '{tag}', 'a}b{c', '100%', '__proto__', ' ', 'a/b']) {
        const owner = `${name}${tenant}`
        await counters().take(owner, [{ name: 'calls', amount: 3, limit: 3 }])
        await counters().put(owner, 'seats', 4)
        const { today, gauges } = await counters().readAll(owner)
        expect([...today, ...gauges]).toEqual([
          ['calls', 3],
          ['seats', 4],
        ])
        await opened().store.purge(owner)
        expect(await counters().read(owner, 'calls')).toMatchObject({ today: null })
      }
    })

    test('a take of several counters changes all of them or none', async () => {
      const both = (calls: number, bytes: number): Promise<unknown> =>
        counters().take(tenant, [
          { name: 'calls', amount: calls, limit: 10 },
          { name: 'bytes', amount: bytes, limit: 100 },
          { name: 'looks', amount: 0, limit: 0 },
        ])
      expect(await both(1, 90)).toMatchObject({ isAllowed: true, usages: [1, 90, 0] })
      expect(await both(1, 20)).toMatchObject({ isAllowed: false, usages: [1, 90, 0] })
      expect(await both(10, 1)).toMatchObject({ isAllowed: false, usages: [1, 90, 0] })
      expect(await both(9, 10)).toMatchObject({ isAllowed: true, usages: [10, 100, 0] })
      expect((await counters().readAll(tenant)).today).toEqual(
        new Map([
          ['bytes', 100],
          ['calls', 10],
        ]),
      )
    })

    test('concurrent takes of one and of several counters do not exceed any limit', async () => {
      const results = await Promise.all(
        Array.from({ length: 300 }, (_, n) => {
          const takes: Take[] = [
            { name: 'calls', amount: 1, limit: 100 },
            { name: 'bytes', amount: 2, limit: 150 },
          ]
          return counters().take(tenant, n % 3 === 0 ? takes : n % 3 === 1 ? takes.slice(0, 1) : takes.toReversed())
        }),
      )
      const { today } = await counters().readAll(tenant)
      const admitted = (isAsked: (n: number) => boolean) =>
        results.filter(({ isAllowed }, n) => isAllowed && isAsked(n)).length
      expect(today.get('calls')).toBe(admitted(() => true))
      expect(today.get('bytes')).toBe(2 * admitted((n) => n % 3 !== 1))
      expect(today.get('calls')).toBe(100)
      expect(today.get('bytes')).toBeLessThanOrEqual(150)
    })

    test(`${MANY.calls} concurrent takes under a limit of ${MANY.limit} admit and store exactly the limit`, async () => {
      const results = await Promise.all(Array.from({ length: MANY.calls }, () => take('calls', 1, MANY.limit)))
      const admitted = results.filter(({ isAllowed }) => isAllowed)
      expect(admitted.length).toBe(MANY.limit)
      expect(admitted.map(({ usages }) => usages[0] as number).toSorted((a, b) => a - b)).toEqual(
        Array.from({ length: MANY.limit }, (_, index) => index + 1),
      )
      expect(await todayOf('calls')).toBe(MANY.limit)
    })

    test('a counter stops at the largest exact number, and concurrent takes of other counters succeed', async () => {
      const [, ...others] = await Promise.all([
        take('calls', Number.MAX_SAFE_INTEGER - 1),
        take('bytes', 2 ** 52),
        take('bytes', 2 ** 51, 2 ** 53),
      ])
      expect(others.map(({ usages }) => usages)).toEqual([[2 ** 52], [2 ** 52 + 2 ** 51]])
      const outcomes = await Promise.allSettled([
        take('calls', 2),
        take('calls', 1),
        take('calls', 1),
        take('calls', 1, 1e300),
        take('calls', 1, Number.MAX_SAFE_INTEGER),
        take('others', 1),
      ])
      expect(outcomes).toEqual([
        { status: 'rejected', reason: rejection },
        { status: 'fulfilled', value: expect.objectContaining({ usages: [Number.MAX_SAFE_INTEGER] }) },
        { status: 'rejected', reason: rejection },
        { status: 'rejected', reason: rejection },
        { status: 'fulfilled', value: expect.objectContaining({ isAllowed: false }) },
        { status: 'fulfilled', value: expect.objectContaining({ usages: [1] }) },
      ])
      expect(await todayOf('calls')).toBe(Number.MAX_SAFE_INTEGER)
      const huge = Array.from({ length: 20 }, () => take('sum', Number.MAX_SAFE_INTEGER))
      const summed = await Promise.allSettled(huge)
      expect(summed.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    })

    test('counters restart at midnight of the store’s clock, which each result returns', async () => {
      await advanceSeconds((await untilMidnight()) - 30)
      const before = await take('calls', 5, 5)
      expect(await take('calls', 1, 5)).toMatchObject({ isAllowed: false })
      await counters().put(tenant, 'seats', 4)
      await advanceSeconds(31) // a sum may lose a fraction of a second
      expect(await counters().read(tenant, 'calls')).toMatchObject({ today: null })
      expect((await counters().readAll(tenant)).today).toEqual(new Map())
      const after = await take('calls', 1, 5)
      expect(after).toMatchObject({ isAllowed: true, usages: [1] })
      expect(dayOf(after.nowMs)).toBe(dayOf(before.nowMs) + 1)
      expect(dateOf(dayOf(after.nowMs))).toBe(new Date(after.nowMs).toISOString().slice(0, 10))
      expect(await counters().read(tenant, 'seats')).toMatchObject({ gauge: 4 })
      await advanceSeconds(10 * DAY_SECONDS)
      expect(await todayOf('calls')).toBeNull()
      await take('calls', 2)
      const { today, gauges } = await counters().readAll(tenant)
      expect([...today, ...gauges]).toEqual([
        ['calls', 2],
        ['seats', 4],
      ])
    })

    test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])(
      'an amount of %d is rejected',
      async (amount) => {
        await expect(take('calls', amount)).rejects.toEqual(rejection)
        expect(await todayOf('calls')).toBeNull()
      },
    )

    test.each([-1, Number.NaN, Number.POSITIVE_INFINITY])('a limit or a gauge of %d is rejected', async (number) => {
      await expect(take('calls', 1, number)).rejects.toEqual(rejection)
      await expect(counters().put(tenant, 'calls', number)).rejects.toEqual(rejection)
    })

    test.each(['', '__proto__', 'a:b', 'a b', '{a}', 'n'.repeat(65), '-'])('the name %j is rejected', async (name) => {
      await expect(take(name, 1)).rejects.toEqual(rejection)
      await expect(counters().read(tenant, name)).rejects.toEqual(rejection)
      await expect(counters().put(tenant, name, 1)).rejects.toEqual(rejection)
      await expect(counters().clear(tenant, name)).rejects.toEqual(rejection)
    })

    test('an empty take, a repeated name and an invalid tenant are rejected', async () => {
      const one = { name: 'calls', amount: 1, limit: null }
      await expect(counters().take(tenant, [])).rejects.toEqual(rejection)
      await expect(counters().take(tenant, [one, one])).rejects.toEqual(rejection)
      for (const owner of ['', 'a\0b', '\uD83D', 'o'.repeat(129)]) {
        await expect(counters().take(owner, [one])).rejects.toEqual(rejection)
        await expect(counters().read(owner, 'calls')).rejects.toEqual(rejection)
        await expect(counters().readAll(owner)).rejects.toEqual(rejection)
        await expect(counters().put(owner, 'calls', 1)).rejects.toEqual(rejection)
        await expect(counters().clear(owner)).rejects.toEqual(rejection)
      }
    })
  })
}
