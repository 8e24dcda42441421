/** Group of `storeSuite`: gauges, and the clearing of counters and gauges. */
import { randomUUID } from 'node:crypto'
import { dateOf, dayOf } from '../../kernel/store/counters.ts'
import type { OpenedStore } from './opened-store.ts'

const DAY_SECONDS = 86_400

export function gaugesSuite(
  { beforeEach, describe, expect, test }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('gauges', () => {
    let tenant: string
    const counters = () => opened().store.counters
    const take = (name: string, amount: number, limit: number | null = null) =>
      counters().take(tenant, [{ name, amount, limit }])
    const advanceSeconds = (seconds: number) => opened().advance(seconds * 1_000)

    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
    })

    test('a gauge keeps its value until it is set again', async () => {
      for (const value of [0, 0.1, 1e-7, 1e21, 1.7976931348623157e308, Number.MAX_SAFE_INTEGER, 12.5]) {
        await counters().put(tenant, 'seats', value)
        expect(await counters().read(tenant, 'seats')).toMatchObject({ today: null, gauge: value })
      }
      await take('seats', 2, 3)
      await take('calls', 1)
      expect(await counters().readAll(tenant)).toMatchObject({
        today: new Map([
          ['calls', 1],
          ['seats', 2],
        ]),
        gauges: new Map([['seats', 12.5]]),
      })
    })

    test('a clear removes one name, or all names', async () => {
      for (const name of ['calls', 'bytes', 'seats']) await take(name, 1)
      for (const name of ['bytes', 'seats', 'rooms']) await counters().put(tenant, name, 2)
      await counters().take(`${tenant}-2`, [{ name: 'calls', amount: 1, limit: null }])
      await counters().clear(tenant, 'bytes')
      await counters().clear(tenant, 'absent')
      const { today, gauges } = await counters().readAll(tenant)
      expect([today, gauges].map((kept) => [...kept.keys()].toSorted())).toEqual([
        ['calls', 'seats'],
        ['rooms', 'seats'],
      ])
      await counters().clear(tenant)
      expect(await counters().readAll(tenant)).toMatchObject({ today: new Map(), gauges: new Map() })
      expect((await counters().read(`${tenant}-2`, 'calls')).today).toBe(1)
      expect(await take('calls', 1, 1)).toMatchObject({ isAllowed: true, usages: [1] })
    })

    test('a purge removes counters of every day and gauges, of exactly one tenant', async () => {
      await take('calls', 1)
      await advanceSeconds(DAY_SECONDS)
      for (const owner of [tenant, `${tenant}-2`]) {
        await counters().take(owner, [{ name: 'calls', amount: 1, limit: null }])
        await counters().put(owner, 'seats', 1)
      }
      expect(await opened().store.count(tenant)).toBeGreaterThan(0)
      await opened().store.purge(tenant)
      expect(await opened().store.count(tenant)).toBe(0)
      expect(await counters().readAll(tenant)).toMatchObject({ today: new Map(), gauges: new Map() })
      expect(await counters().read(`${tenant}-2`, 'calls')).toMatchObject({ today: 1 })
      expect(await counters().read(`${tenant}-2`, 'seats')).toMatchObject({ gauge: 1 })
    })

    test('counters and gauges do not affect keys of similar names', async () => {
      const { nowMs } = await take('calls', 1)
      const keys = ['quota', 'quota:names', 'quota:snap:seats', `quota:${dateOf(dayOf(nowMs))}:calls`, 'calls', 'names']
      for (const key of keys) await opened().store.set(tenant, key, `of ${key}`)
      await counters().put(tenant, 'seats', 4)
      expect(await take('calls', 1)).toMatchObject({ usages: [2] })
      expect(await counters().readAll(tenant)).toMatchObject({
        today: new Map([['calls', 2]]),
        gauges: new Map([['seats', 4]]),
      })
      for (const key of keys) expect(await opened().store.get(tenant, key)).toBe(`of ${key}`)
      await counters().clear(tenant)
      for (const key of keys) expect(await opened().store.take(tenant, key)).toBe(`of ${key}`)
    })
  })
}
