import { describe, expect, test } from 'vitest'
import { EXPENSIVE_BODIES, expectCheap } from './cost.fixture.ts'
import { parseJson } from './json.ts'

const MAX_MEMBERS = 10_000
const refused = (message: RegExp) =>
  expect.objectContaining({ code: 'E_INVALID_JSON', message: expect.stringMatching(message) })
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
const members = (count: number) => Array.from({ length: count }, (_, index) => `"k${index}":${index}`).join(',')

test.each([
  '{}',
  '[]',
  'null',
  '"text"',
  '-0',
  '9007199254740991',
  '-9007199254740991',
  '12345678901234567890.5',
  '1e21',
  '0.1234567890123456789',
  '[-1.5e-3,0,10]',
  ' { "a" : [ 1 , { "b" : "c" } ] , "d" : { "b" : true } } ',
  '{"a":{"x":1},"b":{"x":2},"x":3}',
  '{"a":"{\\"a\\":1}","b":"[:,]"}',
  '{"\\u0061b":"\\ud83d\\ude00","😀":"\\\\u0000","\\\\":"\\""}',
  '{"__proto__":{"x":1}}',
  '["a","a"]',
  nested(64),
])('reads %s as JSON.parse does', (text) => {
  expect(parseJson(text)).toEqual(JSON.parse(text))
})

test.each([
  ['a repeated key', '{"a":1,"a":2}', /"a" occurs twice/],
  ['a repeated key, once escaped', '{"a":1,"\\u0061":2}', /"a" occurs twice/],
  ['a repeated key after an object', '{"a":{"b":1},"a":2}', /"a" occurs twice/],
  ['a repeated key before a space', '[{"a" :1,"a"\n:2}]', /"a" occurs twice/],
  ['65 levels', nested(65), /nests deeper than 64/],
  ['a number that is too large', '[1e999]', /A number is too large/],
  ['a negative number that is too large', '{"a":-1e999}', /A number is too large/],
  ['a whole number of 400 digits', '1'.repeat(400), /A number is too large/],
  ['a whole number beyond 2^53', '[9007199254740993]', /beyond 2\^53/],
  ['a negative whole number beyond 2^53', '-9007199254740993', /beyond 2\^53/],
  ['NUL in a string', '["a\\u0000"]', /NUL or an unpaired surrogate/],
  ['NUL in a key', '{"\\u0000":1}', /NUL or an unpaired surrogate/],
  ['an unpaired surrogate', '["\\ud83d"]', /NUL or an unpaired surrogate/],
  ['a pair in the wrong order', '["\\ude00\\ud83d"]', /NUL or an unpaired surrogate/],
  ['an unpaired surrogate that is not escaped', '["\ud83d"]', /NUL or an unpaired surrogate/],
  ...[
    '',
    ' ',
    '{',
    '{"a"}',
    '{"a":}',
    '[1,]',
    '{} {}',
    '"',
    '"\\u00"',
    '[01]',
    '--1',
    '1e',
    '1.2.3',
    ':',
    ']',
    "{'a':1}",
  ].map((text) => [`invalid JSON: ${text}`, text, /not valid JSON/] as const),
] as const)('rejects %s', (_what, text, message) => {
  expect(() => parseJson(text)).toThrow(refused(message))
})

describe('the limit of 10,000 object members', () => {
  test.each([
    ['one object', (count: number) => `{${members(count)}}`],
    ['several objects', (count: number) => `[{${members(count - 1)}},{"a":1}]`],
    ['nested objects', (count: number) => `{${members(count - 2)},"in":{"a":1}}`],
  ])('counts the members of %s', (_what, body) => {
    expect(() => parseJson(body(MAX_MEMBERS))).not.toThrow()
    expect(() => parseJson(body(MAX_MEMBERS + 1))).toThrow(refused(/more than 10000 object members/))
  })

  test('does not count array elements and colons in strings', () => {
    const body = JSON.stringify({ elements: Array(MAX_MEMBERS * 2).fill(0), text: ':'.repeat(MAX_MEMBERS * 2) })
    expect(parseJson(body)).toEqual(JSON.parse(body))
  })
})

test.each(Object.entries(EXPENSIVE_BODIES))(
  '%s cost at most twice what JSON.parse needs for short keys',
  async (name, body) => {
    await expectCheap(name, () => {
      try {
        parseJson(body)
      } catch {
        // Most of them are rejected.
      }
    })
  },
)

test('the bound of the cost rejects JSON.parse with a reviver', async () => {
  const parse = () => JSON.parse(EXPENSIVE_BODIES['short numbers'] ?? '', (_key, value) => value)
  await expect(expectCheap('a reviver', parse)).rejects.toThrow('a reviver: µs')
})
