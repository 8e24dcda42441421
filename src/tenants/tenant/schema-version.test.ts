import { expect, test } from 'vitest'
import { compared, lastOf, upToDate, versionOf, withChecksums } from './schema-version.ts'

const one = { name: '0001_one', checksum: 'a' }
const two = { name: '0002_two', checksum: 'b' }
const theirs = { name: '0009_theirs', checksum: 'z' }

test('a version consists of the applied migrations, their order and their content', () => {
  const all = [[], [one], [one, two], [two, one], [{ ...one, checksum: 'c' }], [{ name: '0001_onea', checksum: '' }]]
  expect(new Set(all.map(versionOf)).size).toBe(all.length)
  expect(versionOf([{ ...one }])).toBe(versionOf([one]))
})

test('compares storage and folder by name and content', () => {
  expect(compared([one, theirs], [one, two])).toEqual({ pending: [two.name], unknown: [theirs.name], edited: [] })
  expect(compared([{ ...one, checksum: 'old' }], [one])).toEqual({ pending: [], unknown: [], edited: [one.name] })
  expect(compared([{ ...one, checksum: '' }], [one])).toEqual({ pending: [], unknown: [], edited: [] })
})

test('unknown migrations remain and are the last ones', () => {
  const after = upToDate([one, two], [one, theirs])
  expect(after).toEqual([one, two, theirs])
  expect(lastOf(after, 2)).toEqual([theirs.name, two.name])
})

test('checksums are those of the folder, otherwise those known before', () => {
  const before = [{ ...one, checksum: 'old' }, theirs]
  expect(withChecksums([one.name, theirs.name, '0010_new'], [one, two], before)).toEqual([
    one,
    theirs,
    { name: '0010_new', checksum: '' },
  ])
})
