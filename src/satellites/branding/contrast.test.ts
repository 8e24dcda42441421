import { describe, expect, test } from 'vitest'
import { contrastOf, isColour } from './console/contrast.ts'

describe('contrastOf', () => {
  test.each([
    ['#000000', '#ffffff', 21],
    ['#ffffff', '#ffffff', 1],
    ['#777777', '#ffffff', 4.478],
    ['#ff0000', '#ffffff', 3.998],
    ['#0000ff', '#ffffff', 8.592],
  ])('%s and %s have the ratio %d in both orders', (first, second, ratio) => {
    expect(contrastOf(first, second)).toBeCloseTo(ratio, 2)
    expect(contrastOf(second, first)).toBe(contrastOf(first, second))
  })
})

test('isColour accepts #rrggbb only', () => {
  expect(['#1A2b3c', '#fff', 'red', '#1a2b3c; }', undefined].map(isColour)).toEqual([true, false, false, false, false])
})
