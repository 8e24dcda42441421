import { expect, test } from 'vitest'
import { duration, number, size } from './format.ts'

test.each<[string, string]>([
  [number(0), '0'],
  [number(1_234_567.8), '1,234,568'],
  [size(0), '0 B'],
  [size(999), '999 B'],
  [size(1_500), '1.5 kB'],
  [size(120_400_000), '120 MB'],
  [size(5e15), '5000 TB'],
  [duration(0), '1 s'],
  [duration(89.4), '89 s'],
  [duration(90), '2 min'],
  [duration(5_399), '90 min'],
  [duration(9_000), '2.5 h'],
])('%s', (text, expected) => {
  expect(text).toBe(expected)
})
