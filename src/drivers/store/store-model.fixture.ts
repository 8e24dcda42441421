/** Tests a property of all stores: after any sequence of calls, the counters equal those of a small model. */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { DAY_MS, dayOf, MAX_COUNTED, type Take } from '../../kernel/store/counters.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { moveToNoon, type OpenedStore } from '../../testing/store/opened-store.ts'
import { memoryStore } from './memory.ts'
import { openInPostgres } from './postgres.fixture.ts'
import { openInRedis } from './redis.fixture.ts'

const names = ['calls', 'bytes', 'seats'] as const
const name = fc.constantFrom(...names)
const amount = fc.oneof(fc.integer({ min: 0, max: 6 }), fc.constantFrom(2 ** 52, Number.MAX_SAFE_INTEGER))
const limit = fc.oneof(fc.constantFrom(null, 0, 2.5), fc.integer({ min: 0, max: 20 }))
const take = fc.record({ name, amount, limit })
const takes = fc.uniqueArray(take, { minLength: 1, maxLength: 3, selector: (one) => one.name })

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('take' as const),
      calls: fc.array(takes, { minLength: 1, maxLength: 6 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('put' as const),
      name,
      value: fc.double({ min: 0, max: 1e6, noNaN: true }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('clear' as const), name: fc.option(name, { nil: undefined }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pass' as const), days: fc.integer({ min: 1, max: 4 }) }) },
)

const openings: Record<string, () => Promise<OpenedStore>> = {
  memory: async () => {
    const clock = fakeClock()
    return { store: memoryStore().open({ clock }), advance: clock.advance }
  },
  postgres: openInPostgres,
  redis: () => openInRedis({ url: inject('redisUrl') }),
}

export function countersModel(numRuns: number): void {
  describe.each(Object.keys(openings))('the counters of the store %s', (driver) => {
    let opened: OpenedStore
    beforeAll(async () => {
      opened = await (openings[driver] as () => Promise<OpenedStore>)()
      await moveToNoon(opened)
    })
    afterAll(async () => {
      await opened.store.close()
      await opened.cleanUp?.()
    })

    test(`match the model after each of ${numRuns} random sequences of calls`, { timeout: 120_000 }, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
          const { counters } = opened.store
          const tenant = randomUUID()
          const today = new Map<string, number>()
          const gauges = new Map<string, number>()
          /** Cleared counts of today. */
          const cleared = new Map<string, number>()
          let yesterday = new Map<string, number>()
          const counted = () => {
            const sums = names.map((each) => [each, (today.get(each) ?? 0) + (cleared.get(each) ?? 0)] as const)
            return new Map(sums.filter(([, sum]) => sum > 0).map(([each, sum]) => [each, Math.min(sum, MAX_COUNTED)]))
          }
          for (const one of steps) {
            if (one.kind === 'take') {
              // Sent together, so that the store may batch them; it decides them in the order of the calls.
              const results = await Promise.allSettled(one.calls.map((call) => counters.take(tenant, call)))
              for (const [index, call] of one.calls.entries()) {
                const outcome = results[index] as (typeof results)[number]
                expect(outcome.status === 'fulfilled' ? outcome.value : 'too far').toEqual(expected(today, call))
              }
            } else if (one.kind === 'put') {
              await counters.put(tenant, one.name, one.value)
              gauges.set(one.name, one.value)
            } else if (one.kind === 'clear') {
              await counters.clear(tenant, one.name)
              const sums = counted()
              for (const each of one.name ? [one.name] : names) {
                if (sums.has(each)) cleared.set(each, sums.get(each) as number)
                today.delete(each)
                gauges.delete(each)
              }
            } else {
              const { nowMs } = await counters.read(tenant, 'calls')
              await opened.advance(one.days * DAY_MS)
              expect(dayOf((await counters.read(tenant, 'calls')).nowMs)).toBe(dayOf(nowMs) + one.days)
              yesterday = one.days === 1 ? counted() : new Map()
              today.clear()
              cleared.clear()
            }
            expect(await counters.readAll(tenant)).toEqual({ today, gauges, nowMs: expect.any(Number) })
            const expectedCounts = { today: counted(), yesterday, nowMs: expect.any(Number) }
            expect(await counters.counted(tenant, names)).toEqual(expectedCounts)
            for (const each of names) {
              expect(await counters.read(tenant, each)).toEqual({
                today: today.get(each) ?? null,
                gauge: gauges.get(each) ?? null,
                nowMs: expect.any(Number),
              })
            }
          }
        }),
        { numRuns },
      )
    })
  })
}

/** Returns the result of a call for these counts, and changes them. */
function expected(today: Map<string, number>, call: readonly Take[]): unknown {
  const before = call.map((one) => today.get(one.name) ?? 0)
  const sum = (index: number) => BigInt(before[index] as number) + BigInt(call[index]?.amount ?? 0)
  for (const [index, one] of call.entries()) {
    if (one.amount > 0 && one.limit !== null && Number(sum(index)) > one.limit) {
      return { isAllowed: false, usages: before, nowMs: expect.any(Number) }
    }
  }
  if (call.some((_, index) => sum(index) > BigInt(Number.MAX_SAFE_INTEGER))) return 'too far'
  for (const [index, one] of call.entries()) if (one.amount > 0) today.set(one.name, Number(sum(index)))
  return { isAllowed: true, usages: call.map((_, index) => Number(sum(index))), nowMs: expect.any(Number) }
}
