import fc from 'fast-check'
import { expect, test } from 'vitest'
import { csvRow } from './csv.ts'

test.each([
  ['plain', 'plain'],
  ['', ''],
  [null, ''],
  ['a,b', '"a,b"'],
  ['say "hi"', '"say ""hi"""'],
  ['two\nlines', '"two\nlines"'],
  ['two\r\nlines', '"two\r\nlines"'],
  [' padded ', '" padded "'],
  ['{"a":1}', '"{""a"":1}"'],
  ['=1+1', "'=1+1"],
  ['+1', "'+1"],
  ['-1', "'-1"],
  ['@sum(a1)', "'@sum(a1)"],
  ['\tx', `'\tx`],
  ['\rx', `"'\rx"`],
  ['\nx', `"'\nx"`],
  ['＝1', "'＝1"],
  ['  =1', "'  =1"],
  ["'", "''"],
  ["'=1", "''=1"],
  ['=cmd|\' /C calc\'!A0,"x"', `"'=cmd|' /C calc'!A0,""x"""`],
  ['a=b', 'a=b'],
  ['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z'],
])('the cell %j is written as %j', (cell, written) => {
  expect(csvRow([cell])).toBe(`${written}\r\n`)
})

const anyCell = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom('=', '+', '-', '@', "'", '"', ',', ' ', '\t', '\r', '\n', 'a', '＝') }),
)

test('parsing returns every value, without one leading apostrophe', () => {
  fc.assert(
    fc.property(fc.array(fc.array(anyCell, { minLength: 2, maxLength: 2 }), { minLength: 1 }), (rows) => {
      const parsed = parseCsv(rows.map((cells) => csvRow(cells)).join(''))
      expect(parsed.map((cells) => cells.map((cell) => cell.replace(/^'/, '')))).toEqual(rows)
      for (const cell of parsed.flat()) expect(cell).not.toMatch(/^\s*[=+\-@＝＋－＠]|^[\t\r\n]/)
    }),
  )
})

/** RFC 4180 as its grammar has it. */
function parseCsv(text: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  for (let at = 0; at < text.length; ) {
    let cell = ''
    if (text[at] === '"') {
      for (at++; ; at++) {
        if (text[at] !== '"') cell += text[at]
        else if (text[at + 1] === '"') cell += text[at++]
        else break
      }
      at++
    } else {
      while (text[at] !== ',' && text[at] !== '\r') cell += text[at++]
    }
    row.push(cell)
    if (text[at] === ',') at++
    else {
      expect(text.slice(at, at + 2)).toBe('\r\n')
      at += 2
      rows.push(row)
      row = []
    }
  }
  return rows
}
