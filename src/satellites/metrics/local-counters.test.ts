import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LocalCounters } from './local-counters.ts'

const sumsOf = (counters: LocalCounters) =>
  Object.fromEntries(
    counters
      .take()
      .flatMap(({ date, additions }) =>
        additions.map(({ tenantId, name, amount }) => [`${date} ${tenantId} ${name}`, amount] as const),
      ),
  )

test('local counters are empty before the first count and after a take', () => {
  const counters = new LocalCounters()
  expect(counters.isEmpty).toBe(true)
  counters.countResponse(0, 'acme', 200, 5)
  expect(counters.isEmpty).toBe(false)
  expect(sumsOf(counters)).toEqual({ '1970-01-01 acme requests': 1, '1970-01-01 acme bytes': 5 })
  expect(counters.isEmpty).toBe(true)
  expect(counters.take()).toEqual([])
})

test('local counters have the sums of all counts, with takes in between', () => {
  const count = fc.record({
    day: fc.integer({ min: 20_000, max: 20_002 }),
    tenantId: fc.constantFrom('acme', 'globex', 'constructor'),
    key: fc.constantFrom('exports', '__proto__', 'mails'),
    amount: fc.nat(1_000),
    status: fc.constantFrom(0, 200, 404, 500, 503),
    isOfGuard: fc.boolean(),
    isTakenAfter: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(count), (counts) => {
      const counters = new LocalCounters()
      const taken = new Map<string, number>()
      const expected = new Map<string, number>()
      const add = (sums: Map<string, number>, key: string, amount: number) => {
        if (amount > 0) sums.set(key, (sums.get(key) ?? 0) + amount)
      }
      const take = () => {
        for (const { day, additions } of counters.take()) {
          for (const { tenantId, name, amount } of additions) add(taken, `${day} ${tenantId} ${name}`, amount)
        }
      }
      for (const { day, tenantId, key, amount, status, isOfGuard, isTakenAfter } of counts) {
        if (isOfGuard) {
          counters.countResponse(day, tenantId, status, amount)
          add(expected, `${day} ${tenantId} requests`, 1)
          add(expected, `${day} ${tenantId} bytes`, amount)
          add(expected, `${day} ${tenantId} errors`, Number(status >= 500))
        } else {
          counters.add(day, tenantId, key, amount)
          add(expected, `${day} ${tenantId} ${key}`, amount)
        }
        if (isTakenAfter) take()
      }
      take()
      expect(taken).toEqual(expected)
    }),
  )
})

test('a take returns the oldest day first', () => {
  const counters = new LocalCounters()
  for (const day of [3, 1, 2]) counters.add(day, 'acme', 'exports', 1)
  expect(counters.take().map(({ day }) => day)).toEqual([1, 2, 3])
})

test('at their limit, local counters add no new keys, continue existing ones, and report dropped counts once', () => {
  const counters = new LocalCounters(3)
  counters.countResponse(0, 'acme', 200, 1)
  counters.add(0, 'acme', 'exports', 1)
  counters.add(0, 'globex', 'exports', 1) // its tenant takes the last slot
  counters.countResponse(0, 'initech', 200, 1)
  counters.add(0, 'acme', 'mails', 1)
  counters.add(0, 'acme', 'exports', 4)
  counters.countResponse(0, 'acme', 500, 2)
  counters.countResponse(0, 'globex', 200, 9)
  expect(counters.dropped()).toBe(3)
  expect(counters.dropped()).toBe(0)
  expect(sumsOf(counters)).toEqual({
    '1970-01-01 acme requests': 2,
    '1970-01-01 acme errors': 1,
    '1970-01-01 acme bytes': 3,
    '1970-01-01 acme exports': 5,
    '1970-01-01 globex requests': 1,
    '1970-01-01 globex bytes': 9,
  })
  counters.add(0, 'initech', 'exports', 1)
  expect(sumsOf(counters)).toEqual({ '1970-01-01 initech exports': 1 })
})
