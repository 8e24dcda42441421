/** Paths of operations and screens with values of tenants' data. */
import { expect, test } from 'vitest'
import { filledPath } from '../../src/console/data/filled-path.ts'

const PATH = '/tenants/{id}/notes/{noteId}'

test.each(['.', '..', ''])('the value "%s" never leads to the path of another operation', (noteId) => {
  expect(filledPath(PATH, { id: 'acme', noteId })).toBeUndefined()
})

test.each([
  ['a/b', 'a%2Fb'],
  ['../x', '..%2Fx'],
  ['%2e%2e', '%252e%252e'],
  ['...', '...'],
  ['?q#h', '%3Fq%23h'],
])('the value "%s" stays one segment', (noteId, segment) => {
  const path = filledPath(PATH, { id: 'acme', noteId })
  expect(path).toBe(`/tenants/acme/notes/${segment}`)
  expect(new URL(`http://localhost${path}`).pathname).toBe(path)
})

test('a missing value has no path', () => {
  expect(filledPath(PATH, { id: 'acme' })).toBeUndefined()
})
