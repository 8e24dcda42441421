/** Rules of a delivery as tables: the next state for each response, and the delay of each retry. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { BASE_DELAYS_MS, delayMs, JITTER, type Outcome, verdictOn } from './delivery.ts'

const NOW = new Date('2026-01-31T12:00:00Z')
const MIDDLE = 0.5
const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

const receivedStatus = (status: number | null, retryAfter: string | null = null): Outcome => ({
  status,
  retryAfter,
  error: status === null ? 'timeout' : null,
})
const verdict = (outcome: Outcome, used = 1, maxAttempts = 5) => verdictOn(outcome, { used, maxAttempts }, NOW, MIDDLE)
const again = (delayMs: number) => ({ state: 'retry_scheduled', delayMs, disables: null })
const DELIVERED = { state: 'delivered', delayMs: null, disables: null }
const FAILED = { state: 'failed', delayMs: null, disables: null }
const GONE = { state: 'failed', delayMs: null, disables: 'gone' }

describe('verdictOn', () => {
  test.each([200, 201, 202, 204, 206, 226, 299])('status %i delivers', (status) => {
    expect(verdict(receivedStatus(status))).toEqual(DELIVERED)
    expect(verdict(receivedStatus(status), 5)).toEqual(DELIVERED)
  })

  test.each([
    ...[100, 101, 103, 199],
    ...[300, 301, 302, 303, 304, 307, 308, 399],
    ...[400, 401, 403, 404, 405, 408, 409, 411, 413, 418, 422, 425, 429, 451, 499],
    ...[500, 501, 502, 503, 504, 507, 511, 599, 999],
  ])('status %i schedules a retry, and fails without budget', (status) => {
    expect(verdict(receivedStatus(status))).toEqual(again(10 * SECOND_MS))
    expect(verdict(receivedStatus(status), 4)).toEqual(again(30 * MINUTE_MS))
    expect(verdict(receivedStatus(status), 5)).toEqual(FAILED)
    expect(verdict(receivedStatus(status), 6)).toEqual(FAILED)
    expect(verdict(receivedStatus(status), 1, 1)).toEqual(FAILED)
  })

  test('no response schedules a retry, and fails without budget', () => {
    expect(verdict(receivedStatus(null))).toEqual(again(10 * SECOND_MS))
    expect(verdict(receivedStatus(null), 5)).toEqual(FAILED)
  })

  test.each([1, 2, 4, 5, 19])('status 410 at attempt %i fails and disables the subscription', (used) => {
    expect(verdict(receivedStatus(410), used)).toEqual(GONE)
    expect(verdict(receivedStatus(410, '5'), used)).toEqual(GONE)
  })
})

describe('the delay', () => {
  const schedule = [
    [1, 10 * SECOND_MS],
    [2, MINUTE_MS],
    [3, 5 * MINUTE_MS],
    [4, 30 * MINUTE_MS],
    [5, 2 * HOUR_MS],
    [6, 2 * HOUR_MS],
    [19, 2 * HOUR_MS],
  ] as const

  test.each(schedule)('after attempt %i is %i ms with a jitter of 20 %', (used, base) => {
    const by = (chance: number) => verdictOn(receivedStatus(500), { used, maxAttempts: 20 }, NOW, chance).delayMs
    expect([by(0), by(MIDDLE), by(1)]).toEqual([base * 0.8, base, base * 1.2])
  })

  const BASE = MINUTE_MS
  const delayFor = (status: number | null, retryAfter: string | null, chance = MIDDLE) =>
    delayMs(2, receivedStatus(status, retryAfter), NOW, chance)

  test.each([
    ['seconds', '90', 90 * SECOND_MS],
    ['seconds that are fewer than it waits anyway', '59', BASE],
    ['none', '0', BASE],
    ['as many as it may be stretched to', '120', 2 * BASE],
    ['more than that', '121', 2 * BASE],
    ['far more', '999999999', 2 * BASE],
    ['more than a number holds exactly', '99999999999999999999', 2 * BASE],
    ['more than a number holds at all', '9'.repeat(400), 2 * BASE],
    ['with zeros before it', '0090', 90 * SECOND_MS],
    ['a date', 'Sat, 31 Jan 2026 12:01:30 GMT', 90 * SECOND_MS],
    ['a date far away', 'Fri, 31 Dec 9999 23:59:59 GMT', 2 * BASE],
    ['a date that is past', 'Fri, 30 Jan 2026 12:00:00 GMT', BASE],
    ['the date of now', 'Sat, 31 Jan 2026 12:00:00 GMT', BASE],
    ['a date as RFC 850 wrote it', 'Saturday, 31-Jan-26 12:01:30 GMT', 90 * SECOND_MS],
    ['a date as asctime() writes it, which is UTC', 'Sat Jan 31 12:01:30 2026', 90 * SECOND_MS],
    ['a date as asctime() writes it, with a day of one digit', 'Sun Feb  1 12:01:30 2026', 2 * BASE],
    ['a date that cannot be', 'Sat, 32 Jan 2026 12:01:30 GMT', BASE],
    ['nothing', '', BASE],
    ['a space', ' ', BASE],
    ['less than nothing', '-90', BASE],
    ['a fraction', '90.5', BASE],
    ['a power', '1e9', BASE],
    ['a sum', '+90', BASE],
    ['two values', '90, 120', BASE],
    ['words', 'in a while', BASE],
    ['words with something like a year', 'later, maybe 2099', BASE],
    ['half a date', '2099-01-01', BASE],
    ['other digits', '٩٠', BASE],
    ['no number', 'NaN', BASE],
    ['no end', 'Infinity', BASE],
    ['more than one line', '90\r\nx: y', BASE],
    ['a date of another line', 'Sat, 31 Jan 2026 12:01:30 GMT\n', BASE],
    ['a very long text', 'x'.repeat(10_000), BASE],
  ])('respects Retry-After of a busy receiver: %s', (_words, retryAfter, expected) => {
    expect(delayFor(429, retryAfter)).toBe(expected)
    expect(delayFor(503, retryAfter)).toBe(expected)
  })

  test.each([100, 301, 400, 404, 408, 425, 500, 502, 504, null])('ignores Retry-After with status %s', (status) => {
    expect(delayFor(status, '90')).toBe(BASE)
    expect(delayFor(status, 'Sat, 31 Jan 2026 12:01:30 GMT')).toBe(BASE)
  })

  test('is the larger of Retry-After and the delay with jitter', () => {
    expect(delayFor(429, '70', 0)).toBe(70 * SECOND_MS)
    expect(delayFor(429, '70', 1)).toBe(72 * SECOND_MS)
    expect(delayFor(429, '999', 1)).toBe(2 * BASE)
  })
})

describe('with any response', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.nat().map(String),
    fc.bigInt({ min: 0n }).map(String),
    fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
    fc.constantFrom('-1', '0', 'NaN', 'Infinity', '1e9', '__proto__'),
  )
  const outcome = fc.record({
    status: fc.option(fc.integer({ min: 100, max: 999 })),
    error: fc.option(fc.string()),
    retryAfter: fc.option(text),
  })
  const tried = fc.record({ used: fc.integer({ min: 1, max: 40 }), maxAttempts: fc.integer({ min: 1, max: 20 }) })
  const chance = fc.double({ min: 0, max: 1, noNaN: true })
  const now = fc.date({ noInvalidDate: true })

  test('the delay is between 0.8 and 2 times the schedule', () => {
    fc.assert(
      fc.property(outcome, tried, now, chance, (outcome, { used }, now, chance) => {
        const base = BASE_DELAYS_MS[Math.min(used, BASE_DELAYS_MS.length) - 1] as number
        const delay = delayMs(used, outcome, now, chance)
        expect(Number.isInteger(delay)).toBe(true)
        expect(delay).toBeGreaterThanOrEqual(base * (1 - JITTER))
        expect(delay).toBeLessThanOrEqual(base * 2)
      }),
    )
  })

  test('only a complete 2xx delivers, only 410 or an empty budget fails, and only retries have a delay', () => {
    fc.assert(
      fc.property(outcome, tried, now, chance, (outcome, tried, now, chance) => {
        const { state, delayMs, disables } = verdictOn(outcome, tried, now, chance)
        const { status, error } = outcome
        expect(state === 'delivered').toBe(error === null && status !== null && status >= 200 && status <= 299)
        expect(disables).toBe(status === 410 ? 'gone' : null)
        if (state === 'failed') expect(status === 410 || tried.used >= tried.maxAttempts).toBe(true)
        if (state === 'retry_scheduled') expect(tried.used).toBeLessThan(tried.maxAttempts)
        expect(delayMs !== null).toBe(state === 'retry_scheduled')
      }),
    )
  })
})
