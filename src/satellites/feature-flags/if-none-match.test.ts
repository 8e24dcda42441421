import { expect, test } from 'vitest'
import { matchesNone } from './if-none-match.ts'

test.each([
  [null, true],
  ['"a"', false],
  ['W/"a"', false],
  ['"b", "a"', false],
  ['W/"b" ,W/"a"', false],
  ['"b,", "a"', false],
  ['*', false],
  [' * ', false],
  ['"b"', true],
  ['"b", "c"', true],
  ['a', true],
  ['"a', true],
  ['w/"a"', true],
  ['"b" "a"', true],
  ['', true],
])('%j', (header, isSent) => {
  expect(matchesNone(header, '"a"')).toBe(isSent)
})
