import { expect, test } from 'vitest'
import { fits, midnightAfter, rateLimitHeaders, remainingOf, resetAtOf, secondsToReset } from './decision.ts'

const at = (text: string) => Date.parse(text)

test.each([
  { usage: 0, amount: 1, limit: 1, expected: true },
  { usage: 1, amount: 1, limit: 1, expected: false },
  { usage: 0, amount: 2, limit: 1, expected: false },
  { usage: 0, amount: 1, limit: 0, expected: false },
  { usage: 0, amount: 0, limit: 0, expected: true },
  { usage: 9, amount: 0, limit: 1, expected: true },
  { usage: 9, amount: 9, limit: null, expected: true },
  { usage: 1, amount: 1, limit: 1.5, expected: false },
  { usage: 1, amount: 1, limit: 2.5, expected: true },
])('usage $usage plus amount $amount with limit $limit is $expected', ({ usage, amount, limit, expected }) => {
  expect(fits(usage, amount, limit)).toBe(expected)
})

test('the remaining amount is never negative', () => {
  expect([remainingOf(3, 10), remainingOf(12, 10), remainingOf(12, null)]).toEqual([7, 0, null])
})

test('a day ends at midnight UTC of the given time', () => {
  expect(resetAtOf(at('2026-03-04T23:59:59.999Z'))).toBe('2026-03-05T00:00:00.000Z')
  expect(resetAtOf(at('2026-03-05T00:00:00.000Z'))).toBe('2026-03-06T00:00:00.000Z')
  expect(midnightAfter(at('2026-12-31T12:00:00Z'))).toBe(at('2027-01-01T00:00:00Z'))
  expect(secondsToReset(at('2026-03-04T23:59:59.999Z'))).toBe(1)
  expect(secondsToReset(at('2026-03-04T00:00:00Z'))).toBe(86_400)
})

test('headers have limit, remaining amount and reset time in whole numbers', () => {
  const nowMs = at('2026-03-04T23:00:00Z')
  expect(rateLimitHeaders('exports', { limit: 10, remaining: 3, degraded: false }, nowMs)).toEqual({
    'ratelimit-policy': '"exports";q=10;w=86400',
    ratelimit: '"exports";r=3;t=3600',
  })
  expect(rateLimitHeaders('gb', { limit: 2.5, remaining: 0.5, degraded: false }, nowMs)).toEqual({
    'ratelimit-policy': '"gb";q=2;w=86400',
    ratelimit: '"gb";r=0;t=3600',
  })
  expect(rateLimitHeaders('exports', { limit: null, remaining: null, degraded: false }, nowMs)).toEqual({})
  expect(rateLimitHeaders('exports', { limit: 10, remaining: 10, degraded: true }, nowMs)).toEqual({})
})
