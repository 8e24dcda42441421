/** Which issuers one run of the doctor asks. */
import { expect, test } from 'vitest'
import { batchForHour } from './doctor.ts'

test('issuers that are too many are asked in batches, one for each hour', () => {
  const items = [0, 1, 2, 3, 4, 5, 6]
  expect([0, 1, 2].map((hour) => batchForHour(items, 3, hour))).toEqual([
    [0, 1, 2],
    [3, 4, 5],
    [6, 0, 1],
  ])
  expect(batchForHour([0, 1], 3, 5)).toEqual([0, 1])
  expect(batchForHour([], 3, 5)).toEqual([])
})
