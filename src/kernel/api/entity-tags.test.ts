import { expect, test } from 'vitest'
import { entityTag, matchesAny, matchesNone } from './entity-tags.ts'

test('a tag is quoted, and differs for different texts', () => {
  expect(entityTag('{"a":1}')).toMatch(/^"[\w-]{43}"$/)
  expect(entityTag('{"a":1}')).toBe(entityTag('{"a":1}'))
  expect(entityTag('{"a":1}')).not.toBe(entityTag('{"a":2}'))
})

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
])('If-None-Match %j matches no tag: %j', (header, isSent) => {
  expect(matchesNone(header, '"a"')).toBe(isSent)
})

test.each([
  ['"a"', true],
  [' "a" ', true],
  ['"b", "a"', true],
  ['"b,", "a"', true],
  ['W/"b", "a"', true],
  ['*', true],
  [' * ', true],
  ['W/"a"', false],
  ['"b", W/"a"', false],
  ['"b"', false],
  ['"A"', false],
  ['a', false],
  ['"a', false],
  ['"b" "a"', false],
  ['"b", *', false],
  ['', false],
])('If-Match %j matches the tag: %j', (header, isMatch) => {
  expect(matchesAny(header, '"a"')).toBe(isMatch)
})

test.each(['*', '"a"', ''])('If-Match %j does not match a missing resource', (header) => {
  expect(matchesAny(header, undefined)).toBe(false)
})
