/** Audit entries that a walk compares with its requests. */
import { expect, test } from 'vitest'
import { changesIn } from './walk.ts'

const END = 'bulk.complete success'

test.each([
  ['the end of a bulk job', 'bulk.start', ['bulk.start success', END], ['bulk.start success']],
  ['one end of several', 'bulk.start', ['bulk.start success', END, END], ['bulk.start success', END]],
  ['no end of another operation', 'bulk.cancel', ['bulk.cancel success', END], ['bulk.cancel success', END]],
])('the comparison leaves out %s', (_, operation, entries, expected) => {
  expect(changesIn(entries, { operation, isDenied: false })).toEqual(expected)
})

test('the comparison leaves out denials of denied requests only', () => {
  const entries = ['tokens.deny failure']
  expect(changesIn(entries, { operation: 'bulk.start', isDenied: true })).toEqual([])
  expect(changesIn(entries, { operation: 'bulk.start', isDenied: false })).toEqual(entries)
})
