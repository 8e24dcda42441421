/** Group of `storeSuite`: totals of a day, which do not fall when counters are cleared. */
import { randomUUID } from 'node:crypto'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import { dayOf, MAX_COUNTED } from '../../kernel/store/counters.ts'
import type { OpenedStore } from './opened-store.ts'

const DAY_SECONDS = 86_400
const WORKERS = 12
const ROUNDS = 60

export function countedSuite(
  { beforeEach, describe, expect, test }: typeof import('vitest'),
  opened: () => OpenedStore,
): void {
  describe('totals of a day', () => {
    let tenant: string
    const counters = () => opened().store.counters
    const take = (name: string, amount: number, limit: number | null = null) =>
      counters().take(tenant, [{ name, amount, limit }])
    const counted = async (...names: string[]) => {
      const { today, yesterday } = await counters().counted(tenant, names)
      return [Object.fromEntries(today), Object.fromEntries(yesterday)]
    }
    const advanceSeconds = (seconds: number) => opened().advance(seconds * 1_000)

    beforeEach(() => {
      tenant = `tenant-${randomUUID()}`
    })

    test('totals equal the counters, and a name without a counter is left out', async () => {
      expect(await counted('calls', 'bytes')).toEqual([{}, {}])
      await take('calls', 3)
      await take('calls', 4)
      await take('looks', 0)
      await take('others', 1)
      await counters().put(tenant, 'bytes', 5)
      expect(await counted('calls', 'bytes', 'looks', 'constructor', 'calls')).toEqual([{ calls: 7 }, {}])
      expect(await counted()).toEqual([{}, {}])
    })

    test('a rejected amount is not in the total', async () => {
      await take('calls', 9, 10)
      await take('calls', 2, 10)
      await counters().take(tenant, [
        { name: 'bytes', amount: 1, limit: null },
        { name: 'calls', amount: 2, limit: 10 },
      ])
      expect(await counted('calls', 'bytes')).toEqual([{ calls: 9 }, {}])
    })

    test('totals survive the clearing of one name, of all names, and repeated clearing', async () => {
      await take('calls', 3)
      await take('bytes', 5)
      await counters().clear(tenant, 'calls')
      expect(await counted('calls', 'bytes')).toEqual([{ calls: 3, bytes: 5 }, {}])
      expect(await take('calls', 2, 2)).toMatchObject({ isAllowed: true, usages: [2] })
      expect(await counted('calls', 'bytes')).toEqual([{ calls: 5, bytes: 5 }, {}])
      for (const name of [undefined, undefined, 'calls', 'absent']) await counters().clear(tenant, name)
      expect((await counters().readAll(tenant)).today).toEqual(new Map())
      expect(await counted('calls', 'bytes', 'absent')).toEqual([{ calls: 5, bytes: 5 }, {}])
      expect(await take('bytes', 6, 5)).toMatchObject({ isAllowed: false, usages: [0] })
      expect(await take('bytes', 5, 5)).toMatchObject({ isAllowed: true, usages: [5] })
      expect(await counted('calls', 'bytes')).toEqual([{ calls: 5, bytes: 10 }, {}])
    })

    test('totals are separate by tenant, and a purge removes those of its tenant only', async () => {
      const owners = [`a}b{c:${tenant}`, `schlüssel:🔑${tenant}`, tenant]
      const ofOwner = async (owner: string) => [...(await counters().counted(owner, ['calls'])).today.values()]
      for (const [index, owner] of owners.entries()) {
        await counters().take(owner, [{ name: 'calls', amount: index + 1, limit: null }])
        await counters().clear(owner)
        await counters().take(owner, [{ name: 'calls', amount: 1, limit: null }])
      }
      for (const [index, owner] of owners.entries()) expect(await ofOwner(owner)).toEqual([index + 2])
      await advanceSeconds(DAY_SECONDS)
      await take('calls', 1)
      await counters().clear(tenant)
      await opened().store.purge(tenant)
      expect(await counted('calls')).toEqual([{}, {}])
      await take('calls', 4)
      expect(await counted('calls')).toEqual([{ calls: 4 }, {}])
      expect((await counters().counted(owners[0] as string, ['calls'])).yesterday).toEqual(new Map([['calls', 2]]))
    })

    test('totals of the previous day are kept until the present day ends', async () => {
      await take('calls', 3)
      await counters().clear(tenant)
      await take('calls', 4)
      await take('bytes', 1)
      const { nowMs } = await counters().counted(tenant, ['calls'])
      await advanceSeconds(DAY_SECONDS - (nowMs % (DAY_SECONDS * 1_000)) / 1_000 + 1)
      expect(await counted('calls', 'bytes')).toEqual([{}, { calls: 7, bytes: 1 }])
      const next = await counters().counted(tenant, ['calls'])
      expect(dayOf(next.nowMs)).toBe(dayOf(nowMs) + 1)
      await take('calls', 10)
      await counters().clear(tenant)
      await take('calls', 1)
      expect(await counted('calls', 'bytes')).toEqual([{ calls: 11 }, { calls: 7, bytes: 1 }])
      await advanceSeconds(DAY_SECONDS - 60)
      expect(await counted('calls', 'bytes')).toEqual([{ calls: 11 }, { calls: 7, bytes: 1 }])
      await advanceSeconds(60)
      expect(await counted('calls', 'bytes')).toEqual([{}, { calls: 11 }])
      await advanceSeconds(DAY_SECONDS)
      expect(await counted('calls', 'bytes')).toEqual([{}, {}])
    })

    test('a total stops at the largest exact number', async () => {
      await take('calls', MAX_COUNTED - 1)
      await counters().clear(tenant)
      await take('calls', 1)
      expect(await counted('calls')).toEqual([{ calls: MAX_COUNTED }, {}])
      for (let round = 0; round < 3; round++) {
        await take('calls', MAX_COUNTED - 1)
        expect(await counted('calls')).toEqual([{ calls: MAX_COUNTED }, {}])
        await counters().clear(tenant, 'calls')
        expect(await counted('calls')).toEqual([{ calls: MAX_COUNTED }, {}])
      }
      expect(await take('calls', 2)).toMatchObject({ usages: [2] })
    })

    test('totals are exact and never fall under concurrent takes and clears', async () => {
      const names = ['calls', 'bytes', 'seats']
      const sums = new Map(names.map((name) => [name, 0]))
      let isFinished = false
      const taking = Array.from({ length: WORKERS }, async (_, worker) => {
        for (let round = 0; round < ROUNDS; round++) {
          const own = names.slice(0, 1 + ((worker + round) % 3)).map((_, at) => names[(at + worker) % 3] as string)
          const takes = own.map((name, at) => ({ name, amount: 1 + ((round + at) % 3), limit: worker % 2 ? 20 : null }))
          const { isAllowed } = await counters().take(tenant, takes)
          if (!isAllowed) continue
          for (const { name, amount } of takes) sums.set(name, (sums.get(name) ?? 0) + amount)
        }
      })
      const untilOver = async (round: (n: number) => Promise<void>) => {
        for (let n = 0; !isFinished; n++) await round(n)
      }
      const clearing = [
        untilOver(() => counters().clear(tenant)),
        untilOver((n) => counters().clear(tenant, names[n % 3])),
      ]
      const seen: ReadonlyMap<string, number>[] = []
      const watching = untilOver(async () => void seen.push((await counters().counted(tenant, names)).today))
      await Promise.all(taking).finally(() => {
        isFinished = true
      })
      await Promise.all([...clearing, watching])
      expect((await counters().counted(tenant, names)).today).toEqual(sums)
      for (const name of names) {
        const course = seen.map((one) => one.get(name) ?? 0)
        expect(course).toEqual(course.toSorted((a, b) => a - b))
      }
    })

    test('totals of invalid names and tenants are rejected', async () => {
      const rejection = expect.objectContaining({ code: InvalidRequest.code })
      for (const name of ['', '__proto__', 'a:b', 'a b', '{a}', 'n'.repeat(65), '-']) {
        await expect(counters().counted(tenant, ['calls', name])).rejects.toEqual(rejection)
      }
      for (const owner of ['', 'a\0b', '\uD83D', 'o'.repeat(129)]) {
        await expect(counters().counted(owner, ['calls'])).rejects.toEqual(rejection)
      }
    })
  })
}
