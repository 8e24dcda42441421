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

test('tableText wraps cells at spaces to the width of the screen, and cuts nothing', () => {
  const rows = [
    { code: 'storage.closed', remedy: 'Run tenantry doctor --fix, and see the log' },
    { code: 'queue', remedy: 'none' },
  ]
  expect(tableText(rows, { maxWidth: 36 })).toBe(
    [
      'code            remedy',
      'storage.closed  Run tenantry doctor',
      '                --fix, and see the',
      '                log',
      'queue           none',
      '',
    ].join('\n'),
  )
  expect(tableText(rows)).toContain('storage.closed  Run tenantry doctor --fix, and see the log\n')
})

test('tableText keeps commands of up to 60 columns whole, so that they can be copied', () => {
  const remedy = 'Fix the cause, then run: tenantry tenant:activate t2. For all of them: tenantry doctor --fix'
  const cells = (maxWidth: number, text = remedy) =>
    tableText([{ remedy: text }], { maxWidth })
      .trimEnd()
      .split('\n')
      .slice(1)
  expect(cells(30)).toEqual([
    'Fix the cause, then run:',
    'tenantry tenant:activate t2.',
    'For all of them:',
    'tenantry doctor --fix',
  ])
  expect(cells(20)).toContain('tenantry tenant:activate t2.')
  expect(cells(20, `run: tenantry tenant:show ${'x'.repeat(60)}`).slice(0, 2)).toEqual([
    'run: tenantry tenant:show',
    'x'.repeat(60),
  ])
})

test('tableText keeps ids whole, even if the row is wider than the screen', () => {
  const [a, b] = ['0191e3a2-7c3b-7d2e-8f10-000000000001', '0191e3a2-7c3b-7d2e-8f10-000000000002']
  expect(tableText([{ a, b }], { maxWidth: 40 })).toContain(`${a}  ${b}\n`)
})

test('tableText breaks a word of more than 60 columns between characters', () => {
  const text = tableText([{ name: '日本語'.repeat(12), id: 'a' }], { maxWidth: 20 })
  const lines = text.trimEnd().split('\n')
  expect(lines[1]).toBe(`${'日本語'.repeat(10)}  a`)
  expect(lines[2]).toBe('日本語'.repeat(2))
})

test('tableText continues a table without headings, with at least the widths of its earlier parts', () => {
  const widths = new Map<string, number>()
  expect(tableText([{ id: 'acme-corporation', n: 1 }], { widths })).toBe('id                n\nacme-corporation  1\n')
  expect(tableText([{ id: 'b', n: 2 }], { widths })).toBe('b                 2\n')
})

test('tableText wraps a text of many words', () => {
  const words = 'word '.repeat(100_000).trimEnd()
  const text = tableText([{ words, rest: 'x'.repeat(1_000_000) }], { maxWidth: 80 })
  expect(text.match(/word/g)).toHaveLength(100_001) // with the heading
  expect(text.match(/x/g)).toHaveLength(1_000_000)
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
