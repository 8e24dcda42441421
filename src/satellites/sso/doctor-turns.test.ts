/** Which issuers one run of the doctor asks. */
import { expect, test } from 'vitest'
import { turnOf } from './doctor.ts'

test('issuers that are too many have their turn one after the other', () => {
  const items = [0, 1, 2, 3, 4, 5, 6]
  expect([0, 1, 2].map((turn) => turnOf(items, 3, turn))).toEqual([
    [0, 1, 2],
    [3, 4, 5],
    [6, 0, 1],
  ])
  expect(turnOf([0, 1], 3, 5)).toEqual([0, 1])
  expect(turnOf([], 3, 5)).toEqual([])
})
