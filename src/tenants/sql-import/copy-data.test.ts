import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type CopiedRow, valuesOf } from './copy-data.ts'
import { type SqlStatement, StatementReader } from './splitter.ts'

/** Reads the chunks of a file. Returns texts of statements, and rows with their lines. */
function read(pieces: readonly string[]): (string | [number, string])[] {
  const reader = new StatementReader({ longest: 1_000 })
  const found: (string | [number, string])[] = []
  const take = (items: Iterable<SqlStatement | CopiedRow>) => {
    for (const item of items) {
      if ('row' in item) found.push([item.line, item.row])
      else {
        found.push(item.text)
        if (item.opening[0] === 'copy') reader.expectRows()
      }
    }
  }
  for (const piece of pieces) take(reader.read(piece))
  take(reader.end())
  return found
}

const FILE = `select 1;\ncopy t (a) from stdin; \n1\n;'"$$--\n\n\\N\n\\.\nselect 2;\ncopy t (a) from stdin;\r\n3\r\n\\.`
const ITEMS = [
  'select 1',
  'copy t (a) from stdin',
  ...([
    [3, '1'],
    [4, `;'"$$--`],
    [5, ''],
    [6, '\\N'],
  ] as const),
  'select 2',
  'copy t (a) from stdin',
  [10, '3'],
]

test('reads rows as lines up to their end, at any chunk size', () => {
  expect(read([FILE])).toEqual(ITEMS)
  expect(read([...FILE])).toEqual(ITEMS)
  fc.assert(
    fc.property(fc.array(fc.nat({ max: FILE.length })), (cuts) => {
      const at = [0, ...cuts.sort((a, b) => a - b), FILE.length]
      expect(read(at.slice(1).map((end, index) => FILE.slice(at[index], end)))).toEqual(ITEMS)
    }),
  )
})

test.each<[number, string, RegExp]>([
  [1, 'copy t (a) from stdin; select 1;\n1\n\\.\n', /the rows of COPY start on the line after it/],
  [3, 'copy t (a) from stdin;\n1\n', /a line with \\\. is missing/],
  [2, 'copy t (a) from stdin', /a line with \\\. is missing/],
  [2, `copy t (a) from stdin;\n${'x'.repeat(2_000)}`, /this row of COPY is too long/],
])('rejects invalid rows with line %i', (line, text, reason) => {
  expect(() => read([text])).toThrow(new RegExp(`^line ${line}: .*${reason.source}`))
})

test.each<[string, (string | null)[]]>([
  ['', ['']],
  ['a\tb', ['a', 'b']],
  ['\\N\tN\t\\\\N\t', [null, 'N', '\\N', '']],
  ['\\t\\n\\r\\b\\f\\v\\\\t', ['\t\n\r\b\f\v\\t']],
  ['\\a\\é', ['aé']],
])('parses the values of %j', (row, values) => {
  expect(valuesOf({ row, line: 1 })).toEqual(values)
})

test.each(['a\\', 'a\\\tb', '\\101', '\\x41', 'a\\.', 'a\rb'])('rejects %j with its line', (row) => {
  expect(() => valuesOf({ row, line: 7 })).toThrow(/^line 7: /)
})

test('reads values in the format of pg_dump unchanged', () => {
  const written: Readonly<Record<string, string>> = {
    '\b': 'b',
    '\f': 'f',
    '\n': 'n',
    '\r': 'r',
    '\t': 't',
    '\v': 'v',
    '\\': '\\',
  }
  const value = fc.option(
    fc.string({ unit: fc.constantFrom('\\', 'N', '\t', '\n', '\r', '\b', '\f', '\v', '.', 'a', 'é', '💥') }),
  )
  fc.assert(
    fc.property(fc.array(value, { minLength: 1 }), (values) => {
      const row = values
        .map((one) => one?.replace(/[\b\f\n\r\t\v\\]/g, (sign) => `\\${written[sign]}`) ?? '\\N')
        .join('\t')
      expect(valuesOf({ row, line: 1 })).toEqual(values)
    }),
  )
})
