import { expect, test } from 'vitest'
import { cellText, recordText, tableText } from './table.ts'

test('columns are as wide as what stands in them, in columns of a terminal', () => {
  const rows = [
    { id: 'acme', name: '日本 ✓', queued: 7 },
    { id: 'globex-corporation', name: 'Zoë', queued: 1200 },
  ]
  expect(tableText(rows)).toBe(
    [
      'id                  name    queued',
      'acme                日本 ✓       7',
      'globex-corporation  Zoë       1200',
      '',
    ].join('\n'),
  )
})

test('a row may lack what another has', () => {
  expect(tableText([{ a: 1 }, { b: 'x' }])).toBe('a  b\n1  -\n-  x\n')
})

test('a long cell is cut where a width is given, never within a character, and whole elsewhere', () => {
  const rows = [{ name: '日本語日本語', id: 'a' }]
  expect(tableText(rows, { maxCellWidth: 8 })).toBe('name     id\n日本語…  a\n')
  expect(tableText(rows)).toBe('name          id\n日本語日本語  a\n')
})

test.each([
  [null, '-'],
  [undefined, '-'],
  ['', ''],
  [0, '0'],
  [false, 'false'],
  [new Date(0), '1970-01-01T00:00:00.000Z'],
  [new Uint8Array([1, 255]), '\\x01ff'],
  [['a.example', 'b.example'], 'a.example, b.example'],
  [[], '-'],
  [{}, '-'],
  [{ plan: 'pro' }, '{"plan":"pro"}'],
  [[{ a: 1 }], '[{"a":1}]'],
])('%j is shown as %s', (value, text) => {
  expect(cellText(value)).toBe(text)
})

test('a number too large for JSON is shown', () => {
  expect(cellText(2n ** 64n)).toBe('18446744073709551616')
})

test('what a value holds is shown and never obeyed', () => {
  expect(cellText('a\nb\tc')).toBe('a\\nb\\tc')
  expect(cellText('\u001b]0;owned\u0007')).toBe('\\u001b]0;owned\\u0007')
  expect(cellText('\u202egnp.exe')).toBe('\\u202egnp.exe')
  expect(recordText({ 'na\nme': { '\u001bx': 1 } })).toBe('na\\nme.\\u001bx  1\n')
})

test('a record is one line for each field, and for each field of what it holds', () => {
  const record = {
    id: 'acme',
    metadata: { plan: 'pro', owner: { name: 'Ann' } },
    maintenance: null,
    domains: [],
    labels: {},
  }
  expect(recordText(record)).toBe(
    [
      'id                   acme',
      'metadata.plan        pro',
      'metadata.owner.name  Ann',
      'maintenance          -',
      'domains              -',
      'labels               -',
      '',
    ].join('\n'),
  )
})
