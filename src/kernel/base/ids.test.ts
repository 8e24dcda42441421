import fc from 'fast-check'
import { expect, test } from 'vitest'
import { idSequence } from './ids.ts'

const LAST_MS = 2 ** 47
/** The counter of a millisecond ends at 4,095: the sequence passes that twice. */
const IDS_OF_A_MILLISECOND = 10_000
const moments = fc.array(fc.integer({ min: 0, max: LAST_MS }), { minLength: 2, maxLength: 50 })

test('ids strictly increase, regardless of the clock', () => {
  fc.assert(
    fc.property(moments, (clock) => {
      const next = idSequence()
      const ids = clock.map((nowMs) => next(nowMs))
      expect(ids).toEqual(ids.toSorted())
      expect(new Set(ids).size).toBe(ids.length)
    }),
  )
})

test('ids of one millisecond strictly increase, also after an overflow of the counter', () => {
  const next = idSequence()
  const ids = Array.from({ length: IDS_OF_A_MILLISECOND }, () => next(LAST_MS))
  expect(ids.filter((id, index) => index > 0 && id <= (ids[index - 1] ?? ''))).toEqual([])
})

test('each id is a UUID of version 7 (RFC 9562)', () => {
  const next = idSequence()
  fc.assert(
    fc.property(fc.integer({ min: 0, max: LAST_MS }), (nowMs) => {
      expect(next(nowMs)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    }),
  )
})

test('the first 48 bits of an id are the milliseconds if the clock moves forward', () => {
  const next = idSequence()
  for (const ms of [LAST_MS, LAST_MS + 1, LAST_MS + 86_400_000]) {
    expect(Number.parseInt(next(ms).replaceAll('-', '').slice(0, 12), 16)).toBe(ms)
  }
})
