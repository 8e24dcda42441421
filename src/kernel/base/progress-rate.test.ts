import { describe, expect, test } from 'vitest'
import { size } from './format.ts'
import { meter, type Pace, paceOf, paceText } from './progress-rate.ts'

const at = (seconds: number, finished: number) => ({ atMs: seconds * 1_000, finished })

describe('the pace', () => {
  test.each<[string, ReturnType<typeof at>[], number | undefined, Pace]>([
    ['is not known before there are two looks', [at(1, 10)], 90, { perSecond: null, remainingSeconds: null }],
    ['nor while nothing goes on', [at(1, 10), at(5, 10)], 90, { perSecond: null, remainingSeconds: null }],
    ['nor where time stands still', [at(1, 10), at(1, 20)], 90, { perSecond: null, remainingSeconds: null }],
    ['nor where it goes back', [at(1, 10), at(2, 5)], 90, { perSecond: null, remainingSeconds: null }],
    ['is that between the first look and the last', [at(1, 10), at(6, 60)], 90, { perSecond: 10, remainingSeconds: 9 }],
    ['of the last half minute', [at(0, 0), at(70, 0), at(90, 200)], 100, { perSecond: 10, remainingSeconds: 10 }],
    ['leaves nothing when all is done', [at(1, 10)], 0, { perSecond: null, remainingSeconds: 0 }],
    ['nor when there was more than was thought', [at(1, 10), at(2, 20)], -5, { perSecond: 10, remainingSeconds: 0 }],
    ['without a total is only a pace', [at(1, 10), at(2, 20)], undefined, { perSecond: 10, remainingSeconds: null }],
  ])('%s', (_, samples, left, pace) => {
    expect(paceOf(samples, left)).toEqual(pace)
  })
})

describe('a meter', () => {
  test('has its pace from the looks at it, however many there are', () => {
    let nowMs = 0
    const look = meter(() => nowMs)
    expect(look(0, 1_000_000)).toEqual({ perSecond: null, remainingSeconds: null })
    for (let finished = 1; finished <= 100_000; finished++) {
      nowMs = finished
      look(finished, 1_000_000)
    }
    expect(look(100_000, 1_000_000)).toEqual({ perSecond: 1_000, remainingSeconds: 900 })
  })

  test('forgets how it was more than half a minute ago', () => {
    let nowMs = 0
    const look = meter(() => nowMs)
    const seen = [0, 30_000, 60_000, 90_000].map((ms) => {
      nowMs = ms
      return look(ms < 60_000 ? ms : 60_000 + (ms - 60_000) / 10, 100_000).perSecond
    })
    expect(seen).toEqual([null, 1_000, 1_000, 100])
  })
})

describe('in words', () => {
  test.each<[Pace, string]>([
    [{ perSecond: null, remainingSeconds: null }, ''],
    [{ perSecond: null, remainingSeconds: 0 }, ''],
    [{ perSecond: 0.25, remainingSeconds: 7_200 }, ', 0.3 a second, about 2.0 h left'],
    [{ perSecond: 12.3, remainingSeconds: 45 }, ', 12 a second, about 45 s left'],
    [{ perSecond: 1_234, remainingSeconds: null }, ', 1,234 a second'],
    [{ perSecond: 40, remainingSeconds: 0 }, ', 40 a second'],
  ])('%j is "%s"', (pace, text) => {
    expect(paceText(pace)).toBe(text)
  })

  test('counted in what the work is counted in', () => {
    expect(paceText({ perSecond: 12_000_000, remainingSeconds: 120 }, size)).toBe(
      ', 12.0 MB a second, about 2 min left',
    )
  })
})
