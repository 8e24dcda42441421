import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasStatement, textOf } from './text.ts'

const numbersOf = (text: string) => {
  const { parameters } = textOf(text)
  return typeof parameters === 'number' ? parameters : Object.fromEntries(parameters)
}

describe('the parameters of a text', () => {
  test.each<[string, Record<string, number> | number]>([
    ['select 1', {}],
    ['select $1, $3, $1', { $1: 1, $3: 3 }],
    ['select ?1, ?2', { '?1': 1, '?2': 2 }],
    ['select ?, ?', 2],
    [`select '$1', "$2", \`$3\`, [$4], 'it''s $5' -- $6\n, /* $7 */ a$8, $9`, { $9: 9 }],
    [`select '$1`, {}],
    ['select 1 /* $1', {}],
    ['select ä$1', {}],
  ])('%s', (text, expected) => expect(numbersOf(text)).toEqual(expected))

  test.each([
    'select :name',
    'select @name',
    'select $name',
    'select $1::int',
    'select $0',
    'select ?0',
    'select $1$2',
  ])('that no list of values can fill are refused: %s', (text) =>
    expect(() => textOf(text)).toThrow(expect.objectContaining({ code: '42601' })),
  )

  test('are of one kind', () => {
    expect(() => textOf('select $1, ?')).toThrow(expect.objectContaining({ code: '42P02' }))
  })
})

describe('a text is named as PostgreSQL names it', () => {
  test.each([
    ['select 1', 'SELECT'],
    ['  -- x\n values (1)', 'SELECT'],
    ['replace into t values (1)', 'INSERT'],
    ['with a as (select 1) insert into t select * from a', 'INSERT'],
    ['with a as (delete from t) update t set x = 1', 'UPDATE'],
    ['with recursive a(n) as (select 1) delete from t', 'DELETE'],
    ['with "insert" as (select 1) select * from "insert"', 'SELECT'],
    ['with replace as (select 1) select * from replace', 'SELECT'],
    ['with a as (select 1) replace into t select * from a', 'INSERT'],
    ['create table t (x)', 'CREATE'],
    [' ; ', ''],
  ])('%s', (text, command) => expect(textOf(text).command).toBe(command))
})

test('what SQLite leaves of a text is seen, and nothing else is taken for a statement', () => {
  const piece = fc.constantFrom(
    ';',
    ' ',
    '\n',
    '-- a; b\n',
    '/* ; */',
    "'; x'",
    '"; y"',
    '1',
    'a',
    "''",
    '/*',
    '--',
    "'",
  )
  const database = new DatabaseSync(':memory:')
  const isEmptyToSqlite = (text: string): boolean => {
    try {
      database.prepare(text)
      return false
    } catch (error) {
      return (error as { code?: string }).code === 'ERR_INVALID_ARG_VALUE' // no statements in it
    }
  }
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const text = pieces.join('')
      expect(hasStatement(text)).toBe(!isEmptyToSqlite(text))
    }),
    { numRuns: 3_000 },
  )
  database.close()
})
