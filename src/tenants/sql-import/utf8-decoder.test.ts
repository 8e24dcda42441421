import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Utf8Text } from './utf8-decoder.ts'

function read(...pieces: readonly Uint8Array[]): string {
  const text = new Utf8Text()
  const read = pieces.map((piece) => text.read(piece)).join('')
  text.end()
  return read
}
const each = (bytes: Uint8Array) => [...bytes].map((byte) => Uint8Array.of(byte))

test('decodes the same text at any chunk size', () => {
  const anything = fc.string({ unit: 'binary' }).map((text) => `-${text.replaceAll('\0', '')}`)
  fc.assert(
    fc.property(anything, fc.nat({ max: 30 }), (text, cut) => {
      const bytes = Buffer.from(text)
      expect(read(bytes.subarray(0, cut), bytes.subarray(cut))).toBe(text)
      expect(read(...each(bytes))).toBe(text)
    }),
  )
})

test('skips a byte order mark', () => {
  const bytes = Buffer.from('\ufeffa\ufeff')
  expect(read(bytes)).toBe('a\ufeff')
  expect(read(...each(bytes))).toBe('a\ufeff')
})

test.each<[string, number, Buffer]>([
  ['another encoding', 3, Buffer.concat([Buffer.from('a\né💥\n'), Buffer.from('café\nb\n', 'latin1')])],
  ['a truncated character at the end', 2, Buffer.from('a\n💥').subarray(0, -1)],
  ['an invalid byte', 1, Buffer.from([0x61, 0xff])],
  ['a surrogate', 1, Buffer.from([0xed, 0xa0, 0x80])],
  ['NUL', 2, Buffer.from('a\nb\0c\n')],
  ['an archive of pg_dump', 1, Buffer.from('PGDMP\x01\x0e\x00\x04\x08', 'latin1')],
])('rejects %s with its line', (_, line, bytes) => {
  const refusal = `line ${line}: invalid UTF-8`
  expect(() => read(bytes)).toThrow(refusal)
  expect(() => read(...each(bytes))).toThrow(refusal)
})
