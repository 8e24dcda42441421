import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { lineAt, type ReadingOptions, type SqlStatement, StatementReader, sqlStatements } from './splitter.ts'

test.each<[string, string, string[]]>([
  ['nothing', ' \n;; -- a comment;\n/* another; */ ;', []],
  ['a statement without a semicolon', 'select 1', ['select 1']],
  ['two', 'select 1; select 2;', ['select 1', 'select 2']],
  ['a comment before its statement', '-- first;\nselect 1; -- done', ['-- first;\nselect 1']],
  [
    'strings',
    `select ';', 'it''s; so', E'\\';', e'a\\\\'; select 2`,
    [`select ';', 'it''s; so', E'\\';', e'a\\\\'`, 'select 2'],
  ],
  ['a backslash in a plain string', `select '\\'; select 2`, [`select '\\'`, 'select 2']],
  ['a word that ends in e', `select type'a\\'; select 2`, [`select type'a\\'`, 'select 2']],
  ['names', 'select "a;""b;" ; select 2', ['select "a;""b;"', 'select 2']],
  ['nested comments', 'select /* a; /* b; */ c; */ 1; select 2', ['select /* a; /* b; */ c; */ 1', 'select 2']],
  ['dollar quotes', 'do $$ begin a; end $$; select $x$ ; $$ ; $x$', ['do $$ begin a; end $$', 'select $x$ ; $$ ; $x$']],
  [
    'parameters and names that resemble dollar quotes',
    'select $1, a$b$; select $2, a$b$',
    ['select $1, a$b$', 'select $2, a$b$'],
  ],
  [
    'brackets',
    'create rule r as on insert to t do (select 1; select 2); select 3',
    ['create rule r as on insert to t do (select 1; select 2)', 'select 3'],
  ],
  [
    'bodies of functions',
    'CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC select case 1 when 1 then 2 end; select 3; END; select 4',
    [
      'CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC select case 1 when 1 then 2 end; select 3; END',
      'select 4',
    ],
  ],
  [
    'begin and end elsewhere',
    'begin; select case 1 when 1 then 2 end; end',
    ['begin', 'select case 1 when 1 then 2 end', 'end'],
  ],
  ['an unclosed token', `select 1; select 'a; b`, ['select 1', `select 'a; b`]],
  ['an additional bracket', 'select 1); select 2', ['select 1)', 'select 2']],
  [
    'triggers of SQLite',
    'create temp trigger t after insert on a begin update a set b = case when 1 then 2 end; delete from c; end; select 1',
    [
      'create temp trigger t after insert on a begin update a set b = case when 1 then 2 end; delete from c; end',
      'select 1',
    ],
  ],
  [
    'triggers of PostgreSQL',
    'create trigger t before insert on a for each row execute function f(); select 1',
    ['create trigger t before insert on a for each row execute function f()', 'select 1'],
  ],
  ['a comment that ends with any line break', 'select 1 -- a\r; select 2', ['select 1 -- a', 'select 2']],
  ['a byte order mark', '\ufeffselect 1', ['select 1']],
  [
    'commands of psql up to the end of their line',
    "\\echo 'it;\nselect 1 \\g; select 2",
    ["\\echo 'it;", 'select 1 \\g', 'select 2'],
  ],
])('splits %s', (_, text, statements) => {
  expect(sqlStatements(text)).toEqual(statements)
})

test('splits a concatenation of statements into these statements', () => {
  const inner = fc.string({
    unit: fc.constantFrom(';', "'", '"', '$', '-', '/', '*', '\\', '\n', ' ', 'a', 'E', '(', ')'),
  })
  const piece = fc.oneof(
    inner.map((text) => `'${text.replaceAll("'", "''")}'`),
    inner.map((text) => `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`),
    inner.map((text) => `"${text.replaceAll('"', '""')}"`),
    inner.map((text) => `$q$${text.replaceAll('$', '')}$q$`),
    inner.map((text) => `/*${text.replaceAll(/[*/]/g, '')}*/`),
    inner.map((text) => `--${text.replaceAll('\n', '')}\n`),
    inner.map((text) => `(${text.replaceAll(/[^; a\n]/g, '')})`),
  )
  const statement = fc.array(piece, { maxLength: 5 }).map((pieces) => ['select', ...pieces, 'x'].join(' '))
  fc.assert(
    fc.property(fc.array(statement), (statements) => {
      expect(sqlStatements(statements.join(' ;\n'))).toEqual(statements)
    }),
  )
})

function read(pieces: readonly string[], options?: ReadingOptions): SqlStatement[] {
  const reader = new StatementReader(options)
  return [...pieces.flatMap((piece) => [...reader.read(piece)]), ...reader.end()] as SqlStatement[]
}

/** Opening, closing and continuing marks in any order. */
const marks = fc.string({
  maxLength: 60,
  unit: fc.constantFrom(
    ...[
      ';',
      "'",
      "''",
      '"',
      '`',
      '[',
      ']',
      '(',
      ')',
      '$',
      '$$',
      '$a$',
      '$é',
      '-',
      '--',
      '/',
      '*',
      '/*',
      '*/',
      '\\',
      "E'",
    ],
    ...[
      '\n',
      '\r',
      ' ',
      'e',
      'é',
      '💥',
      '_',
      '1',
      '.',
      'create function',
      ' begin atomic ',
      ' case ',
      ' end ',
      'trigger',
    ],
  ),
})

describe('chunks of a text', () => {
  test.each(['postgres', 'sqlite'] as const)('have the same statements at any cut: %s', (engine) => {
    fc.assert(
      fc.property(marks, fc.array(fc.nat({ max: 60 })), (text, cuts) => {
        const at = [0, ...cuts.map((cut) => Math.min(cut, text.length)).sort((a, b) => a - b), text.length]
        const pieces = at.slice(1).map((end, index) => text.slice(at[index], end))
        const whole = read([text], { engine })
        expect(read(pieces, { engine })).toEqual(whole)
        expect(read([...text], { engine })).toEqual(whole)
      }),
      { numRuns: 2_000 },
    )
  })

  test('have the first line of every statement', () => {
    fc.assert(
      fc.property(marks, (text) => {
        let from = 0
        for (const { text: statement, line, start } of read([text])) {
          const at = text.indexOf(statement, from)
          expect(text.slice(0, at).split('\n')).toHaveLength(line)
          expect(statement.slice(start)).toMatch(/^[^\s]/)
          from = at + statement.length
        }
      }),
    )
  })

  test('yield a statement with its semicolon', () => {
    const reader = new StatementReader()
    const texts = (piece: string) => ([...reader.read(piece)] as SqlStatement[]).map(({ text }) => text)
    expect(texts('select 1')).toEqual([])
    expect(texts(';')).toEqual(['select 1'])
    expect(texts("select 'a")).toEqual([])
    expect(texts("b;'; sel")).toEqual(["select 'ab;'"])
  })

  test('separate the comments before a statement from it', () => {
    const [first, second] = read(['\n-- about\n/* the\nfirst */ INSERT into /* ! */ t (a);\n\n \n  set x.y = 1'])
    expect(first).toEqual({
      text: '-- about\n/* the\nfirst */ INSERT into /* ! */ t (a)',
      line: 2,
      start: 25,
      opening: ['insert', 'into', 't', 'a'],
    })
    expect(first && lineAt(first, first.start)).toBe(4)
    expect(second).toEqual({ text: 'set x.y = 1', line: 7, start: 0, opening: ['set', 'x', 'y'] })
  })

  test('reject an endless statement with its first line', () => {
    const longest = 1024 * 1024
    const started = ["select 1;\nselect 'a", ...Array<string>(15).fill('x'.repeat(longest / 16))]
    expect(read([...started, "'"], { longest })).toHaveLength(2)
    expect(() => read([...started, ...started], { longest })).toThrow(
      'line 2: the statement that starts here is longer than 1 Mi characters',
    )
  })
})

test.each<[string, string, string[]]>([
  ['comments that do not nest', 'select 1 /* /* ; */; select 2', ['select 1 /* /* ; */', 'select 2']],
  ['dollar signs, which do not quote', 'select $$; select $$', ['select $$', 'select $$']],
  ['a backslash in a string', `select E'\\'; select 2`, [`select E'\\'`, 'select 2']],
  ['names in four notations', 'select "a;", `b;``;`, [c;"], d', ['select "a;", `b;``;`, [c;"], d']],
])('splits SQLite with %s', (_, text, statements) => {
  expect(read([text], { engine: 'sqlite' }).map(({ text }) => text)).toEqual(statements)
})
