import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type CsvField, csvLine, csvName, csvQuoted, csvRows } from './csv.ts'

async function* inPieces(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (let [at, count] = [0, 0]; at < bytes.length; count++) {
    const size = sizes[count % sizes.length] ?? 1
    const piece = Buffer.from(bytes.subarray(at, at + size))
    yield piece
    piece.fill(0x22) // whoever gave it may use it for something else
    at += size
  }
}

async function read(text: string | Buffer, sizes: readonly number[] = [1_000]): Promise<CsvField[][]> {
  const rows: CsvField[][] = []
  for await (const some of csvRows(inPieces(Buffer.from(text), sizes))) rows.push(...some)
  return rows
}
const bare = (text: string): CsvField => ({ text, isQuoted: false })
const quoted = (text: string): CsvField => ({ text, isQuoted: true })

describe('CSV', () => {
  test('tells NULL from an empty text, and what is quoted from what is not', async () => {
    expect(await read('a,b\n,""\n1,"1"\n')).toEqual([
      [bare('a'), bare('b')],
      [bare(''), quoted('')],
      [bare('1'), quoted('1')],
    ])
  })

  test('of one column has an empty line for NULL, and none at its end', async () => {
    expect(await read('a\n\n""\n\n')).toEqual([[bare('a')], [bare('')], [quoted('')], [bare('')]])
    expect(await read('')).toEqual([])
    expect(await read('\n')).toEqual([[bare('')]])
  })

  test.each([
    [
      'quotes, commas and newlines within quotes',
      '"a""b","c,d","e\nf","\r\n",""""\n',
      ['a"b', 'c,d', 'e\nf', '\r\n', '"'],
    ],
    ['what stands before and behind quotes', 'a"b"c,"d"e\n', ['abc', 'de']],
    ['one line without its end', 'ab', ['ab']],
    ['one in quotes without its end', '"ab"', ['ab']],
    ['one with nothing in quotes', '""', ['']],
    ['a last line without its end', '"a",b', ['a', 'b']],
    ['a carriage return at each line', '"a",b\r\n', ['a', 'b']],
    ['one at the very end', '"a",b\r', ['a', 'b']],
    ['a NUL, and what begins like an escape', '"a\0b",\\.,\\x00\n', ['a\0b', '\\.', '\\x00']],
    ['characters of several bytes', '"ä€😀",é\n', ['ä€😀', 'é']],
  ])('has %s, whatever it is cut into', async (_, text, expected) => {
    for (const size of [1, 2, 3, 5, 100]) {
      const [row] = await read(text, [size])
      expect(row?.map((field) => field.text)).toEqual(expected)
    }
  })

  test.each([
    ['ends within a value', 'a\n"b'],
    ['has a carriage return outside of quotes', 'a\rb\n'],
    ['is not UTF-8', Buffer.from([0x61, 0x0a, 0xc3, 0x28, 0x0a])],
  ])('that %s is refused', async (what, text) => {
    for (const size of [1, 100]) {
      await expect(read(text, [size])).rejects.toMatchObject({
        code: 'E_BACKUP_INCOMPATIBLE',
        message: `The data of a table ${what}.`,
      })
    }
  })

  test('is read as it was written, in pieces of any size', async () => {
    const field = fc.oneof(
      fc.constantFrom('', 'NULL', '\\.', '1.5', '\\x00ff').map(bare),
      fc
        .oneof(fc.string({ unit: 'binary' }), fc.string({ unit: fc.constantFrom('"', ',', '\n', '\r', 'a', '😀') }))
        .map(quoted),
    )
    const rows = fc.array(fc.array(field, { minLength: 1, maxLength: 4 }), { maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(rows, fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), async (rows, sizes) => {
        const text = rows
          .map((row) => csvLine(row.map(({ text, isQuoted }) => (isQuoted ? csvQuoted(text) : text))))
          .join('')
        expect(await read(text, sizes)).toEqual(rows)
      }),
      { numRuns: 300 },
    )
  })

  test('has quotes around a name that needs them', async () => {
    const names = ['id', 'Order No', 'a"b', 'c,d', 'e\nf', '', '\\.']
    const text = csvLine(names.map(csvName))
    expect(text).toBe('id,Order No,"a""b","c,d","e\nf","","\\."\n')
    expect((await read(text))[0]?.map((field) => field.text)).toEqual(names)
  })
})
