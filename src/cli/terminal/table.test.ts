import { expect, test } from 'vitest'
import { cellText, recordText, tableText } from './table.ts'

test('tableText aligns columns by their width on a terminal, and numbers to the right', () => {
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

test('tableText prints a dash for a missing field', () => {
  expect(tableText([{ a: 1 }, { b: 'x' }])).toBe('a  b\n1  -\n-  x\n')
})

test('tableText cuts cells at the maximum width, never within a character, and prints whole cells without one', () => {
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
])('cellText formats %j as %s', (value, text) => {
  expect(cellText(value)).toBe(text)
})

test('cellText formats a bigint', () => {
  expect(cellText(2n ** 64n)).toBe('18446744073709551616')
})

test('cellText and recordText escape control characters and changes of writing direction', () => {
  expect(cellText('a\nb\tc')).toBe('a\\nb\\tc')
  expect(cellText('\u001b]0;owned\u0007')).toBe('\\u001b]0;owned\\u0007')
  expect(cellText('\u202egnp.exe')).toBe('\\u202egnp.exe')
  expect(recordText({ 'na\nme': { '\u001bx': 1 } })).toBe('na\\nme.\\u001bx  1\n')
})

test('recordText prints a line for each field and each nested field', () => {
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
