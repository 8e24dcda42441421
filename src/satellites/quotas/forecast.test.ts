/** Forecasts of quotas as a table: daily counters, gauges, and quotas without a rate. */
import { describe, expect, test } from 'vitest'
import { type Average, averagesOf, type ForecastInput, forecastOf, rateDays } from './console/forecast.ts'

const now = new Date('2026-11-27T06:00:00Z')
const counter = { limit: 100, isGauge: false, now }
const gauge = { limit: 50, isGauge: true, now }
const perDay = (amount: number) => ({ perDay: amount, days: 14 })

test.each<[string, ForecastInput, string | undefined]>([
  ['a counter that reaches its limit today', { ...counter, usage: 50 }, '8.333 daily 2026-11-27T12:00:00.000Z'],
  ['a counter that reaches its limit at midnight', { ...counter, usage: 25 }, '4.167 daily never'],
  ['a counter that does not reach its limit today', { ...counter, usage: 1 }, '0.167 daily never'],
  ['a counter without usage', { ...counter, usage: 0 }, undefined],
  ['a counter at its limit', { ...counter, usage: 100 }, undefined],
  ['a counter above its limit', { ...counter, usage: 130 }, undefined],
  [
    'a counter in the first hour of the day',
    { ...counter, usage: 50, now: new Date('2026-11-27T00:59:59Z') },
    undefined,
  ],
  ['a counter with a metric', { ...counter, usage: 50, average: perDay(1) }, '8.333 daily 2026-11-27T12:00:00.000Z'],
  ['a quota without a limit', { ...counter, limit: undefined, usage: 50 }, undefined],
  ['a limit of 0', { ...counter, limit: 0, usage: 0 }, undefined],
  ['a gauge with a metric', { ...gauge, usage: 40, average: perDay(2.5) }, '2.500 gauge 2026-12-01T06:00:00.000Z'],
  ['a gauge that lasts for a year', { ...gauge, usage: 40, average: perDay(0.02) }, '0.020 gauge never'],
  ['a gauge without a metric', { ...gauge, usage: 40 }, undefined],
  ['a gauge whose metric is 0', { ...gauge, usage: 40, average: perDay(0) }, undefined],
  ['a gauge at its limit', { ...gauge, usage: 50, average: perDay(2) }, undefined],
])('the forecast of %s', (_, input, expected) => {
  const found = forecastOf(input)
  expect(found && `${found.rate.toFixed(3)} ${found.kind} ${found.at?.toISOString() ?? 'never'}`).toBe(expected)
})

describe('averages of metrics', () => {
  const counts = [
    { period: '2026-11-26', key: 'seats', value: 20 },
    { period: '2026-11-26', key: 'projects', value: 7 },
    { period: '2026-11-20', key: 'seats', value: 8 },
  ]

  test('the days are the 14 full days before today', () => {
    expect(rateDays(now)).toEqual({ from: '2026-11-13', to: '2026-11-27' })
  })

  test.each<[string, string, boolean, string[], Average | undefined]>([
    ['that began yesterday', 'projects', true, [], { perDay: 7, days: 1 }],
    ['that began a week ago, with days without a count', 'seats', true, [], { perDay: 4, days: 7 }],
    ['that began 13 days ago', 'seats', true, ['2026-11-14'], { perDay: 29 / 13, days: 13 }],
    ['that began 14 days ago', 'seats', true, ['2026-11-13'], { perDay: 29 / 14, days: 14 }],
    ['that began before the period', 'seats', true, ['2026-11-01'], { perDay: 29 / 14, days: 14 }],
    ['of an incomplete list, without its oldest day', 'seats', false, [], { perDay: 20 / 6, days: 6 }],
    ['that began within an incomplete list', 'projects', false, [], { perDay: 7, days: 1 }],
    ['that only the oldest day of an incomplete list has', 'calls', false, ['2026-11-19'], undefined],
    ['without counts', 'bytes', true, [], undefined],
  ])('the average of a metric %s', (_, key, isComplete, older, expected) => {
    const amounts = [...counts, ...older.map((period) => ({ period, key, value: 1 }))]
    expect(averagesOf(amounts, isComplete, '2026-11-27').get(key)).toEqual(expected)
  })

  test('there is no average without counts', () => {
    expect(averagesOf([], true, '2026-11-27').size).toBe(0)
  })
})
