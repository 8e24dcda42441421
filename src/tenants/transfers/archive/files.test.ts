import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TABLE_FILE, tableFiles } from './files.ts'

test.each([
  ['orders', 'data/orders.csv'],
  ['_private.v2-old', 'data/_private.v2-old.csv'],
  ['Order Lines', 'data/Order%20Lines.csv'],
  ['../../etc/passwd', 'data/%2E.%2F..%2Fetc%2Fpasswd.csv'],
  ['.hidden', 'data/%2Ehidden.csv'],
  ['-rf', 'data/%2Drf.csv'],
  ['a"b\\c', 'data/a%22b%5Cc.csv'],
  ['café', 'data/caf%C3%A9.csv'],
  ['100%', 'data/100%25.csv'],
  ['', 'data/%.csv'],
])('stores table %j in %s', (name, file) => {
  expect(tableFiles([name])).toEqual([file])
})

test('gives each table its own file on case-insensitive file systems', () => {
  expect(tableFiles(['users', 'Users', 'USERS', 'users~2', 'users%20'])).toEqual([
    'data/users.csv',
    'data/Users~2.csv',
    'data/USERS~3.csv',
    'data/users%7E2.csv',
    'data/users%2520.csv',
  ])
})

test('limits file names to the length and characters of all file systems', () => {
  const [short, long, longer] = tableFiles(['é'.repeat(63), 'é'.repeat(90), `${'é'.repeat(90)}!`])
  expect(short).toBe(`data/${'%C3%A9'.repeat(33)}%C.csv`)
  expect([long, longer]).toEqual([`${short?.slice(0, -4)}~2.csv`, `${short?.slice(0, -4)}~3.csv`])
})

test('gives tables with arbitrary names distinct files in data/', () => {
  const characters = fc.constantFrom(
    'a',
    'A',
    'é',
    'É',
    '/',
    '.',
    '-',
    '%',
    '~',
    '2',
    '"',
    '\\',
    ' ',
    '\0',
    '\ud800',
    '😀',
  )
  const names = fc.uniqueArray(fc.oneof(fc.string({ unit: characters, maxLength: 80 }), fc.string()), { maxLength: 40 })
  fc.assert(
    fc.property(names, (tables) => {
      const files = tableFiles(tables)
      expect(files).toHaveLength(tables.length)
      expect(new Set(files.map((file) => file.toLowerCase())).size).toBe(tables.length)
      for (const file of files) expect(file).toMatch(TABLE_FILE)
    }),
  )
})
