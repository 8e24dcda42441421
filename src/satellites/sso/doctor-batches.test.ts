/** Selection of issuers for one run of the doctor. */
import { expect, test } from 'vitest'
import { batchForHour } from './doctor.ts'

test('many issuers are probed in batches, one batch for each hour', () => {
  const items = [0, 1, 2, 3, 4, 5, 6]
  expect([0, 1, 2].map((hour) => batchForHour(items, 3, hour))).toEqual([
    [0, 1, 2],
    [3, 4, 5],
    [6, 0, 1],
  ])
  expect(batchForHour([0, 1], 3, 5)).toEqual([0, 1])
  expect(batchForHour([], 3, 5)).toEqual([])
})
