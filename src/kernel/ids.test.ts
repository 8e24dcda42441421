import fc from 'fast-check'
import { expect, test } from 'vitest'
import { uuidv7 } from './ids.ts'

const LAST_MS = 2 ** 47
const moments = fc.array(fc.integer({ min: 0, max: LAST_MS }), { minLength: 2, maxLength: 50 })

test('ids rise strictly, whatever the clock does', () => {
  fc.assert(
    fc.property(moments, (clock) => {
      const ids = clock.map((nowMs) => uuidv7(nowMs))
      expect(ids).toEqual(ids.toSorted())
      expect(new Set(ids).size).toBe(ids.length)
    }),
  )
})

test('a hundred thousand within a millisecond rise too', () => {
  let last = uuidv7(LAST_MS)
  for (let n = 0; n < 100_000; n++) {
    const next = uuidv7(LAST_MS)
    if (next <= last) expect.fail(`${next} came after ${last}`)
    last = next
  }
})

test('each is a UUID of version 7 as RFC 9562 has it', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: LAST_MS }), (nowMs) => {
      expect(uuidv7(nowMs)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    }),
  )
})

test('its first 48 bits are the milliseconds, when the clock goes forward', () => {
  const nowMs = LAST_MS + 1_000_000
  for (const ms of [nowMs, nowMs + 1, nowMs + 86_400_000]) {
    expect(Number.parseInt(uuidv7(ms).replaceAll('-', '').slice(0, 12), 16)).toBe(ms)
  }
})
