import { describe, expect, test } from 'vitest'
import { type ScheduledDelivery, scheduleOf } from './schedule.ts'

const START = Date.parse('2026-01-01T00:00:00Z')
const at = (seconds: number) => new Date(START + seconds * 1_000)
const delivery = (members: Partial<ScheduledDelivery>): ScheduledDelivery => ({
  state: 'retry_scheduled',
  attemptCount: 0,
  budgetStart: 0,
  dueAt: null,
  createdAt: at(0),
  ...members,
})
const attempt = (number: number, second: number, durationMs = 1_000) => ({ number, startedAt: at(second), durationMs })
/** Numbers of attempts with their planned seconds. */
const planned = (...given: Parameters<typeof scheduleOf>) =>
  scheduleOf(...given).map((one) => [one.number, (Date.parse(one.at) - START) / 1_000])

describe('the schedule of a delivery', () => {
  test('of a new delivery has all attempts, after the delays without jitter', () => {
    expect(planned(delivery({ state: 'pending', dueAt: at(0) }), [], 7)).toEqual([
      [1, 0],
      [2, 10],
      [3, 70],
      [4, 370],
      [5, 2_170],
      [6, 9_370],
      [7, 16_570],
    ])
  })

  test('has the exact time of the next attempt, and counts later ones from it', () => {
    const waiting = delivery({ attemptCount: 2, dueAt: at(80) })
    expect(planned(waiting, [attempt(1, 3), attempt(2, 15)], 4)).toEqual([
      [1, 0],
      [2, 14],
      [3, 80],
      [4, 380],
    ])
  })

  test.each(['delivered', 'failed'] as const)('of a delivery in state %s ends with its last attempt', (state) => {
    expect(planned(delivery({ state, attemptCount: 2 }), [attempt(1, 0), attempt(2, 12)], 5)).toEqual([
      [1, 0],
      [2, 11],
    ])
  })

  test('after a replay starts with its first attempt', () => {
    const replayed = delivery({ attemptCount: 6, budgetStart: 5, dueAt: at(9_012) })
    expect(planned(replayed, [attempt(5, 4_000), attempt(6, 9_000)], 3)).toEqual([
      [6, 9_000],
      [7, 9_012],
      [8, 9_072],
    ])
    const waiting = delivery({ state: 'pending', attemptCount: 5, budgetStart: 5, dueAt: at(9_000) })
    expect(planned(waiting, [attempt(5, 4_000)], 2)).toEqual([
      [6, 9_000],
      [7, 9_010],
    ])
  })

  test('while an attempt is in progress has its planned time, not the end of the lease', () => {
    const sent = delivery({ state: 'delivering', attemptCount: 1, dueAt: at(500) })
    expect(planned(sent, [attempt(1, 0)], 3)).toEqual([
      [1, 0],
      [2, 11],
      [3, 71],
    ])
  })

  test('has one more attempt if the budget was reduced since', () => {
    const waiting = delivery({ attemptCount: 3, dueAt: at(400) })
    expect(planned(waiting, [attempt(1, 0), attempt(2, 11), attempt(3, 72)], 2).at(-1)).toEqual([4, 400])
  })
})
