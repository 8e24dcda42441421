/** Marks of the time axis, and styles of series. */
import { describe, expect, test } from 'vitest'
import { type ChartSeries, stylesOf } from '../../src/console/components/chart/series.ts'
import { endOf, marksOf, markText, stepText } from '../../src/console/components/chart/steps.ts'

const HOUR_MS = 3_600_000
const startsFrom = (first: Date, count: number, lengthMs: number) =>
  Array.from({ length: count }, (_, index) => new Date(first.getTime() + index * lengthMs).toISOString())
/** Local time, as marks of hours have it. */
const hours = (count: number) => startsFrom(new Date(2026, 10, 26, 15), count, HOUR_MS)
const days = (count: number) => startsFrom(new Date('2026-11-01'), count, 24 * HOUR_MS)

describe('marks', () => {
  test.each([
    ['days with space for all', days(4), 'day', 4, ['Nov 1', 'Nov 2', 'Nov 3', 'Nov 4']],
    [
      'days with space for few, from the newest one',
      days(14),
      'day',
      5,
      ['Nov 2', 'Nov 5', 'Nov 8', 'Nov 11', 'Nov 14'],
    ],
    ['hours at multiples of their distance', hours(24), 'hour', 6, ['4 PM', '8 PM', 'Nov 27', '4 AM', '8 AM', '12 PM']],
    ['hours of several days', hours(72), 'hour', 3, ['Nov 27', 'Nov 28', 'Nov 29']],
    ['no space', hours(24), 'hour', 0, ['Nov 27']],
  ] as const)('of %s', (_, starts, step, max, expected) => {
    const marks = marksOf(starts, step, max).map((index) => markText(starts[index] ?? '', step))
    expect(marks.map((mark) => mark.replace(/\s/g, ' '))).toEqual(expected)
  })
})

test('a day is a day in UTC', () => {
  expect(stepText('2026-11-27', 'day')).toBe('Nov 27, 2026')
  expect(endOf('2026-11-27', 'day')).toBe('2026-11-28T00:00:00.000Z')
  expect(endOf('2026-11-27T23:00:00.000Z', 'hour')).toBe('2026-11-28T00:00:00.000Z')
})

describe('styles of series', () => {
  const series = (count: number): ChartSeries[] =>
    Array.from({ length: count }, (_, index) => ({ label: `${index}`, values: [] }))

  test('six series have six colors and six dashes', () => {
    const styles = stylesOf(series(6))
    expect(new Set(styles.map(({ color }) => color)).size).toBe(6)
    expect(new Set(styles.map(({ dash }) => dash.join())).size).toBe(6)
  })

  test('a seventh series is rejected', () => {
    expect(() => stylesOf(series(7))).toThrow('a chart has at most 6 series')
  })

  test('a series keeps its own color', () => {
    expect(stylesOf([{ label: 'Failed', values: [], color: 'bad' }])).toEqual([{ color: 'bad', dash: [] }])
  })
})
