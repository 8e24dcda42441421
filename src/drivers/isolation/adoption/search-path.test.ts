/** Tests that the text of a search path becomes a list of quoted names. */
import { expect, test } from 'vitest'
import { parseSearchPath, searchPathValue } from './search-path.ts'

test.each([
  ['"$user", public', '"$user", "public"'],
  ['Legacy,"Legacy" , "a""b, c"', '"legacy", "Legacy", "a""b, c"'],
  ['""', "''"],
  ['', "''"],
  [' "", app ', '"app"'],
])('%s', (text, value) => {
  const { names, irregular } = parseSearchPath(text)
  expect(searchPathValue(names)).toBe(value)
  expect(irregular).toEqual([])
})

test('a name that is no identifier is reported, and quoted', () => {
  const text = 'public, x;alter/**/role/**/legacy/**/superuser'
  const { names, irregular } = parseSearchPath(text)
  expect(irregular).toEqual(['x;alter/**/role/**/legacy/**/superuser'])
  expect(searchPathValue(names)).toBe('"public", "x;alter/**/role/**/legacy/**/superuser"')
})

test.each(['"open', 'a b', 'a,,b'])('text that PostgreSQL rejects, too, is an error: %s', (text) => {
  expect(() => parseSearchPath(text)).toThrow('not a list of names')
})
