import fc from 'fast-check'
import { pack } from 'tar-stream'
import { describe, expect, test } from 'vitest'
import { ByteSource } from '../../../kernel/base/byte-source.ts'
import { body, nextEntry, type TarEntry } from './tar-reading.ts'
import { BLOCK_BYTES, entryHead, padding, TAR_END } from './tar-writing.ts'

const mtime = new Date('2026-03-04T05:06:07.890Z')
const BROKEN = 'The backup is damaged or was altered: it is not a sound tar file.'
const TRUNCATED = 'The backup is truncated'

interface File {
  readonly name: string
  readonly content: Uint8Array
}

async function tarOf(files: readonly File[]): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for (const { name, content } of files) {
    parts.push(await entryHead({ name, size: content.length, mtime }), content, padding(content.length))
  }
  return Buffer.concat([...parts, TAR_END])
}

function sourceOf(bytes: Uint8Array, size = 1_000): ByteSource {
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  }
  return new ByteSource(pieces())
}

async function entriesOf(bytes: Uint8Array, size?: number): Promise<(TarEntry & { content: Buffer })[]> {
  const tar = sourceOf(bytes, size)
  const entries: (TarEntry & { content: Buffer })[] = []
  for (let entry = await nextEntry(tar); entry; entry = await nextEntry(tar)) {
    const { name, isFile, size } = entry
    entries.push({ name, isFile, size, content: Buffer.concat(await Array.fromAsync(body(tar, entry))) })
  }
  expect(await tar.hasMore()).toBe(false)
  return entries
}

/** The field is overwritten, and the checksum made right again. */
function forged(bytes: Buffer, at: number, field: string): Buffer {
  const altered = Buffer.from(bytes)
  altered.write(field, at, 'latin1')
  altered.write('        ', 148, 'latin1')
  const sum = altered.subarray(0, BLOCK_BYTES).reduce((all, byte) => all + byte, 0)
  altered.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return altered
}

test('what is written is read, entry by entry', async () => {
  const character = fc.constantFrom('a', 'b', '.', '%', '~', '/', 'é', '😀')
  const name = fc.oneof(
    fc.string({ unit: character, minLength: 1, maxLength: 20 }),
    fc.integer({ min: 90, max: 300 }).map((length) => `data/${'x'.repeat(length)}.csv`),
  )
  const content = fc.oneof(fc.uint8Array({ maxLength: 20 }), fc.uint8Array({ minLength: 500, maxLength: 1_100 }))
  const file = fc.record({ name: name.filter((text) => !text.endsWith('/')), content })
  await fc.assert(
    fc.asyncProperty(fc.array(file, { maxLength: 5 }), fc.integer({ min: 1, max: 2_000 }), async (files, size) => {
      expect(await entriesOf(await tarOf(files), size)).toEqual(
        files.map(({ name, content }) => ({
          name,
          isFile: true,
          size: content.length,
          content: Buffer.from(content),
        })),
      )
    }),
  )
})

test('times that a header has no room for are the next that it has', async () => {
  for (const time of ['1960-01-01T00:00:00Z', '2200-01-01T00:00:00Z']) {
    const head = await entryHead({ name: 'archive.json', size: 0, mtime: new Date(time) })
    expect(head.toString('latin1', 136, 147)).toBe(time < '1970' ? '00000000000' : '17777777777')
  }
})

test.each([0, 1, 511, 512, 8 ** 11 - 1, 8 ** 11, 3e12, Number.MAX_SAFE_INTEGER])(
  'a size of %d is read',
  async (size) => {
    for (const name of ['data/a.csv', `data/${'x'.repeat(200)}.csv`]) {
      const head = await entryHead({ name, size, mtime })
      expect(await nextEntry(sourceOf(head))).toMatchObject({ name, size, isFile: true })
    }
  },
)

test('what is no file is told apart', async () => {
  const packing = pack()
  packing.entry({ name: 'up', type: 'symlink', linkname: '../..' })
  packing.entry({ name: 'data', type: 'directory' })
  packing.entry({ name: 'one', type: 'link', linkname: '/etc/passwd' })
  packing.finalize()
  const bytes = Buffer.concat(await Array.fromAsync(packing as AsyncIterable<Buffer>))
  expect((await entriesOf(bytes)).map(({ isFile }) => isFile)).toEqual([false, false, false])
})

describe('refused is', () => {
  const file = { name: 'data/a.csv', content: Buffer.from('a,b\n1,2\n') }
  const long = { ...file, name: `data/${'x'.repeat(200)}.csv` }

  test('what is cut short, wherever', async () => {
    const bytes = await tarOf([file, long])
    for (let length = 0; length < bytes.length; length++) {
      await expect(entriesOf(bytes.subarray(0, length)), `${length} bytes`).rejects.toThrow(TRUNCATED)
    }
  })

  test('an entry that ends before its size, also where no block is begun', async () => {
    const content = Buffer.alloc(2 * BLOCK_BYTES, 'x')
    const tar = sourceOf((await tarOf([{ name: 'data/a.csv', content }])).subarray(0, 2 * BLOCK_BYTES))
    const entry = (await nextEntry(tar)) as TarEntry
    await expect(Array.fromAsync(body(tar, entry))).rejects.toThrow(TRUNCATED)
  })

  test('a header of another kind of tar file', async () => {
    await expect(nextEntry(sourceOf(forged(await tarOf([file]), 257, 'ustar  ')))).rejects.toThrow(BROKEN)
  })

  test('a header with anything changed, and what lies between entries', async () => {
    const bytes = await tarOf([file])
    const free = new Set(Array.from(file.content, (_, index) => BLOCK_BYTES + index))
    for (let at = 0; at < bytes.length; at++) {
      if (free.has(at)) continue
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 0x04
      await expect(entriesOf(changed), `byte ${at}`).rejects.toThrow('The backup is')
    }
  })

  test('what does not begin with a header, in the words of who reads it', async () => {
    const foreign = new Error('foreign')
    await expect(nextEntry(sourceOf(Buffer.alloc(512, 'x')), () => foreign)).rejects.toBe(foreign)
    await expect(nextEntry(sourceOf(Buffer.alloc(512, 'x')))).rejects.toThrow(BROKEN)
  })

  test('one block of zeros where two should be', async () => {
    const bytes = Buffer.concat([Buffer.alloc(512), await tarOf([file])])
    await expect(nextEntry(sourceOf(bytes))).rejects.toThrow(BROKEN)
  })

  test.each([
    ['that is not in octal digits', '00000000009 '],
    ['that is negative', '\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff'],
    ['beyond what can be counted', '\x80\0\0\0\0\xff\xff\xff\xff\xff\xff\xff'],
    ['that is not there', '\0\0\0\0\0\0\0\0\0\0\0\0'],
  ])('a size %s', async (_, size) => {
    await expect(nextEntry(sourceOf(forged(await tarOf([file]), 124, size)))).rejects.toThrow(BROKEN)
  })

  test.each([
    ['that is too long', (bytes: Buffer) => forged(bytes, 124, '77777777777 ')],
    ['that is none', (bytes: Buffer) => withRecords(bytes, 'path is x')],
    ['whose lengths lie', (bytes: Buffer) => withRecords(bytes, '999 path=x\n')],
    ['that says another size', (bytes: Buffer) => withRecords(bytes, '10 size=9\n9 path=x\n')],
    ['of a pax header', (bytes: Buffer) => Buffer.concat([bytes.subarray(0, 1024), bytes])],
  ])('a pax header %s', async (_, change) => {
    await expect(nextEntry(sourceOf(change(await tarOf([long]))))).rejects.toThrow(BROKEN)
  })

  function withRecords(bytes: Buffer, records: string): Buffer {
    const altered = forged(bytes, 124, `${records.length.toString(8).padStart(11, '0')} `)
    altered.fill(0, BLOCK_BYTES, 2 * BLOCK_BYTES).write(records, BLOCK_BYTES)
    return altered
  }
})
