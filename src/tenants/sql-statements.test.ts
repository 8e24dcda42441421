import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sqlStatements } from './sql-statements.ts'

test.each<[string, string, string[]]>([
  ['nothing', ' \n;; -- a comment;\n/* another; */ ;', []],
  ['one without an end', 'select 1', ['select 1']],
  ['two', 'select 1; select 2;', ['select 1', 'select 2']],
  ['a comment stays with its statement', '-- first;\nselect 1; -- done', ['-- first;\nselect 1']],
  [
    'strings',
    `select ';', 'it''s; so', E'\\';', e'a\\\\'; select 2`,
    [`select ';', 'it''s; so', E'\\';', e'a\\\\'`, 'select 2'],
  ],
  ['a backslash is nothing special in a plain one', `select '\\'; select 2`, [`select '\\'`, 'select 2']],
  ['a word that ends in e', `select type'a\\'; select 2`, [`select type'a\\'`, 'select 2']],
  ['names', 'select "a;""b;" ; select 2', ['select "a;""b;"', 'select 2']],
  ['comments that nest', 'select /* a; /* b; */ c; */ 1; select 2', ['select /* a; /* b; */ c; */ 1', 'select 2']],
  ['dollar quotes', 'do $$ begin a; end $$; select $x$ ; $$ ; $x$', ['do $$ begin a; end $$', 'select $x$ ; $$ ; $x$']],
  [
    'parameters and names are no dollar quotes',
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
  ['what is not closed', `select 1; select 'a; b`, ['select 1', `select 'a; b`]],
  ['a bracket too many', 'select 1); select 2', ['select 1)', 'select 2']],
])('%s', (_, text, statements) => {
  expect(sqlStatements(text)).toEqual(statements)
})

test('what is put together of whole pieces comes apart into them', () => {
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
