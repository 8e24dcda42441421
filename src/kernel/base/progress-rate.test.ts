import { describe, expect, test } from 'vitest'
import { size } from './format.ts'
import { meter, type Pace, paceOf, paceText } from './progress-rate.ts'

const at = (seconds: number, finished: number) => ({ atMs: seconds * 1_000, finished })

describe('paceOf', () => {
  test.each<[string, ReturnType<typeof at>[], number | undefined, Pace]>([
    ['returns no pace for one sample', [at(1, 10)], 90, { perSecond: null, remainingSeconds: null }],
    ['returns no pace without progress', [at(1, 10), at(5, 10)], 90, { perSecond: null, remainingSeconds: null }],
    [
      'returns no pace for samples of the same time',
      [at(1, 10), at(1, 20)],
      90,
      { perSecond: null, remainingSeconds: null },
    ],
    [
      'returns no pace if the progress decreases',
      [at(1, 10), at(2, 5)],
      90,
      { perSecond: null, remainingSeconds: null },
    ],
    ['uses the first and the last sample', [at(1, 10), at(6, 60)], 90, { perSecond: 10, remainingSeconds: 9 }],
    ['uses the last half minute', [at(0, 0), at(70, 0), at(90, 200)], 100, { perSecond: 10, remainingSeconds: 10 }],
    ['returns no remaining time after the end', [at(1, 10)], 0, { perSecond: null, remainingSeconds: 0 }],
    ['returns no negative remaining time', [at(1, 10), at(2, 20)], -5, { perSecond: 10, remainingSeconds: 0 }],
    [
      'returns only the pace without a total',
      [at(1, 10), at(2, 20)],
      undefined,
      { perSecond: 10, remainingSeconds: null },
    ],
  ])('%s', (_, samples, left, pace) => {
    expect(paceOf(samples, left)).toEqual(pace)
  })
})

describe('a meter', () => {
  test('computes the pace from any number of samples', () => {
    let nowMs = 0
    const look = meter(() => nowMs)
    expect(look(0, 1_000_000)).toEqual({ perSecond: null, remainingSeconds: null })
    for (let finished = 1; finished <= 100_000; finished++) {
      nowMs = finished
      look(finished, 1_000_000)
    }
    expect(look(100_000, 1_000_000)).toEqual({ perSecond: 1_000, remainingSeconds: 900 })
  })

  test('ignores samples that are older than half a minute', () => {
    let nowMs = 0
    const look = meter(() => nowMs)
    const seen = [0, 30_000, 60_000, 90_000].map((ms) => {
      nowMs = ms
      return look(ms < 60_000 ? ms : 60_000 + (ms - 60_000) / 10, 100_000).perSecond
    })
    expect(seen).toEqual([null, 1_000, 1_000, 100])
  })
})

describe('paceText', () => {
  test.each<[Pace, string]>([
    [{ perSecond: null, remainingSeconds: null }, ''],
    [{ perSecond: null, remainingSeconds: 0 }, ''],
    [{ perSecond: 0.25, remainingSeconds: 7_200 }, ', 0.3 a second, about 2.0 h left'],
    [{ perSecond: 12.3, remainingSeconds: 45 }, ', 12 a second, about 45 s left'],
    [{ perSecond: 1_234, remainingSeconds: null }, ', 1,234 a second'],
    [{ perSecond: 40, remainingSeconds: 0 }, ', 40 a second'],
  ])('returns for %j the text "%s"', (pace, text) => {
    expect(paceText(pace)).toBe(text)
  })

  test('uses the unit of the work', () => {
    expect(paceText({ perSecond: 12_000_000, remainingSeconds: 120 }, size)).toBe(
      ', 12.0 MB a second, about 2 min left',
    )
  })
})
