import fc from 'fast-check'
import { packTar } from 'modern-tar'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type TarEntry, TarReader } from './tar-reading.ts'
import { BLOCK_BYTES, entryHead, padding, TAR_END } from './tar-writing.ts'

const mtime = new Date('2026-03-04T05:06:07.890Z')
const BROKEN = 'The backup is damaged or was altered: it is not a valid tar file.'
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

function readerOf(bytes: Uint8Array, size = 1_000): TarReader {
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += size) yield Buffer.from(bytes.subarray(at, at + size))
  }
  const tar = new TarReader(pieces())
  onTestFinished(() => tar.close())
  return tar
}

async function entriesOf(bytes: Uint8Array, size?: number) {
  const tar = readerOf(bytes, size)
  const entries: (Omit<TarEntry, 'content'> & { content: Buffer })[] = []
  for (let entry = await tar.next(); entry; entry = await tar.next()) {
    entries.push({ ...entry, content: Buffer.concat(await Array.fromAsync(entry.content)) })
  }
  return entries
}

/** Overwrites the field and corrects the checksum. */
function forged(bytes: Buffer, at: number, field: string): Buffer {
  const altered = Buffer.from(bytes)
  altered.write(field, at, 'latin1')
  altered.write('        ', 148, 'latin1')
  const sum = altered.subarray(0, BLOCK_BYTES).reduce((all, byte) => all + byte, 0)
  altered.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return altered
}

test('a reader returns the entries that were written, regardless of the pieces', async () => {
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

test('a time outside of the range of a header becomes the nearest time in the range', async () => {
  for (const time of ['1960-01-01T00:00:00Z', '2300-01-01T00:00:00Z']) {
    const head = await entryHead({ name: 'archive.json', size: 0, mtime: new Date(time) })
    expect(head.toString('latin1', 136, 147)).toBe(time < '1970' ? '00000000000' : '77777777777')
  }
})

test.each([0, 1, 511, 512, 8 ** 11 - 1, 8 ** 11, 3e12, Number.MAX_SAFE_INTEGER])(
  'a reader returns an entry of %d bytes before its content arrives',
  async (size) => {
    for (const name of ['data/a.csv', `data/${'x'.repeat(200)}.csv`]) {
      const head = await entryHead({ name, size, mtime })
      expect(await readerOf(head).next()).toMatchObject({ name, size, isFile: true })
    }
  },
)

test('a reader returns an entry whose size is a binary number, as former versions wrote sizes over 8 GiB', async () => {
  const head = forged(await entryHead({ name: 'data/a.csv', size: 0, mtime }), 124, '\x80\0\0\0\0\0\0\x02\0\0\0\x01')
  expect(await readerOf(head).next()).toMatchObject({ size: 8 * 1024 ** 3 + 1, isFile: true })
})

test('links and directories are not files', async () => {
  const bytes = await packTar([
    { header: { name: 'up', type: 'symlink', linkname: '../..', size: 0 } },
    { header: { name: 'data/', type: 'directory', size: 0 } },
    { header: { name: 'one', type: 'link', linkname: '/etc/passwd', size: 0 } },
  ])
  expect((await entriesOf(bytes)).map(({ isFile }) => isFile)).toEqual([false, false, false])
})

describe('a reader rejects', () => {
  const file = { name: 'data/a.csv', content: Buffer.from('a,b\n1,2\n') }
  const long = { ...file, name: `data/${'x'.repeat(200)}.csv` }

  test('a tar file truncated at any byte', async () => {
    const bytes = await tarOf([file, long])
    for (let length = 0; length < bytes.length; length++) {
      await expect(entriesOf(bytes.subarray(0, length)), `${length} bytes`).rejects.toThrow(TRUNCATED)
    }
  })

  test('an entry that ends before its size, also at the end of a block', async () => {
    const content = Buffer.alloc(2 * BLOCK_BYTES, 'x')
    const tar = readerOf((await tarOf([{ name: 'data/a.csv', content }])).subarray(0, 2 * BLOCK_BYTES))
    const entry = (await tar.next()) as TarEntry
    await expect(Array.fromAsync(entry.content)).rejects.toThrow(TRUNCATED)
  })

  test('a header with any byte changed', async () => {
    const bytes = await tarOf([file])
    for (let at = 0; at < BLOCK_BYTES; at++) {
      if (at === 154 || at === 155) continue // the separator behind the digits of the checksum
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 0x04
      await expect(entriesOf(changed), `byte ${at}`).rejects.toThrow(BROKEN)
    }
  })

  test('a file that is not a tar file, with the error of the caller', async () => {
    const foreign = new Error('foreign')
    await expect(readerOf(Buffer.alloc(512, 'x')).next(() => foreign)).rejects.toBe(foreign)
    await expect(readerOf(Buffer.alloc(512, 'x')).next()).rejects.toThrow(BROKEN)
  })

  test('bytes after the end, also zeros', async () => {
    const bytes = await tarOf([file])
    for (const [more, message] of [
      [Buffer.alloc(BLOCK_BYTES), 'data follows the end of the archive'],
      [TAR_END, 'data follows the end of the archive'],
      [Buffer.alloc(1), 'data follows the end of the archive'],
      [Buffer.alloc(BLOCK_BYTES, 'x'), 'The backup is'],
    ] as const) {
      await expect(entriesOf(Buffer.concat([bytes, more]))).rejects.toThrow(message)
    }
  })

  test.each([
    ['without octal digits', '00000000009 '],
    ['below zero', '\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff'],
    ['beyond the largest safe integer', '\x80\0\0\0\0\xff\xff\xff\xff\xff\xff\xff'],
    ['of NUL', '\0\0\0\0\0\0\0\0\0\0\0\0'],
  ])('a size %s', async (_, size) => {
    await expect(entriesOf(forged(await tarOf([file]), 124, size))).rejects.toThrow('The backup is')
  })

  test('a pax header larger than a name can be, before it is read', async () => {
    await expect(entriesOf(forged(await tarOf([long]), 124, '77777777777 '))).rejects.toThrow(BROKEN)
  })
})

test('a reader requests no more of the source after an invalid header', async () => {
  const piece = Buffer.alloc(64 * 1024, 'x')
  let given = 0
  async function* endless() {
    yield await entryHead({ name: 'data/a.csv', size: 2 * piece.length, mtime })
    for (; given < 1_000; given++) {
      if (given === 10) buffered.resolve()
      yield piece
    }
  }
  const buffered = Promise.withResolvers<void>()
  const tar = new TarReader(endless())
  const read = async () => {
    for (let entry = await tar.next(); entry; entry = await tar.next()) {
      await buffered.promise
      await Array.fromAsync(entry.content)
    }
  }
  await expect(read()).rejects.toThrow(BROKEN)
  expect(given).toBeLessThan(100)
})

test('an error of the source passes unchanged', async () => {
  const failure = new Error('network lost')
  async function* failing() {
    yield await tarOf([{ name: 'data/a.csv', content: Buffer.from('a') }])
    throw failure
  }
  const tar = new TarReader(failing())
  const read = async () => {
    for (let entry = await tar.next(); entry; entry = await tar.next()) await Array.fromAsync(entry.content)
  }
  await expect(read()).rejects.toBe(failure)
})
