/** A clock that moves only when a test moves it. */
import type { Clock } from '../../kernel/base/clock.ts'

export interface FakeClock extends Clock {
  advance(ms: number): void
  set(date: Date): void
}

/**
 * Creates a clock for a tenancy under test.
 *
 * @example
 * const clock = fakeClock()
 * const { tenancy } = await testTenancy(serverUrl, { clock })
 * clock.advance(60_000)
 */
export function fakeClock(start: Date = new Date('2026-01-01T00:00:00Z')): FakeClock {
  let nowMs = start.getTime()
  return {
    now: () => new Date(nowMs),
    advance: (ms) => {
      nowMs += ms
    },
    set: (date) => {
      nowMs = date.getTime()
    },
  }
}
