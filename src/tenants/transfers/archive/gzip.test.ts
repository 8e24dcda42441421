import { gunzipSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { gunzipped, isGzip, member, members } from './gzip.ts'

async function* inPieces(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const read = async (chunks: AsyncIterable<Uint8Array>) => Buffer.concat(await Array.fromAsync(gunzipped(chunks)))

const two = Buffer.concat([gzipSync('first '), gzipSync('second')])

test('decompresses several members as one text at any chunk size', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ maxLength: 50 })),
      fc.integer({ min: 1, max: 60 }),
      async (parts, size) => {
        const bytes = Buffer.concat(
          await Promise.all([...parts, Buffer.alloc(0)].map((part) => member(Buffer.from(part)))),
        )
        expect(isGzip(bytes)).toBe(true)
        expect(await read(inPieces(bytes, size))).toEqual(Buffer.concat(parts))
        expect(gunzipSync(bytes)).toEqual(Buffer.concat(parts))
      },
    ),
  )
})

describe('compression of long input', () => {
  const MIB = 1024 * 1024
  const long = Buffer.from(Array.from({ length: 400_000 }, (_, n) => `row ${n},`).join('')) // more than a few blocks

  test.each([1_000, 70_000, MIB, 10 * MIB])('decompresses to the same bytes, in chunks of %d', async (size) => {
    const bytes = Buffer.concat(await Array.fromAsync(members(inPieces(long, size))))
    expect(bytes.length).toBeLessThan(long.length / 2)
    expect((await read(inPieces(bytes, 50_000))).equals(long)).toBe(true)
    expect(gunzipSync(bytes).equals(long)).toBe(true)
  })

  test('compression rejects with the error of its source', async () => {
    async function* failing() {
      yield long
      throw new Error('the server closed the connection')
    }
    await expect(Array.fromAsync(members(failing()))).rejects.toThrow('the server closed the connection')
  })

  test('compression reads its source no further than its reader requires', async () => {
    let given = 0
    async function* counted() {
      try {
        for (; given < 1_000; given++) yield Buffer.alloc(MIB)
      } finally {
        given += 1_000_000
      }
    }
    for await (const _ of members(counted())) break
    expect(given - 1_000_000).toBeLessThan(10)
  })
})

describe('gunzipped rejects', () => {
  test.each([
    ['a stream that ends inside a member', two.subarray(0, -1), 'truncated'],
    ['a stream that ends inside a header', two.subarray(0, 30), 'truncated'],
    ['an empty stream', Buffer.alloc(0), 'truncated'],
    ['a stream that is not gzip', Buffer.from('a,b\n1,2\n'), 'cannot be decompressed'],
    ['text after the last member', Buffer.concat([two, Buffer.from('more')]), 'cannot be decompressed'],
    ['a zero byte after the last member', Buffer.concat([two, Buffer.alloc(1)]), 'data follows the end of the archive'],
    [
      'zero bytes and a member after the last member',
      Buffer.concat([two, Buffer.alloc(100_000), two]),
      'data follows the end of the archive',
    ],
  ])('rejects %s', async (_, bytes, reason) => {
    for (const size of [1, 10, two.length, 1_000_000]) {
      await expect(read(inPieces(bytes, size)), `in chunks of ${size}`).rejects.toMatchObject({
        code: 'E_BACKUP_INCOMPATIBLE',
        message: expect.stringContaining(reason),
      })
    }
  })
})

describe('the source of a decompression', () => {
  test('decompression rejects with the error of its source, even if it resembles a zlib error', async () => {
    const failure = Object.assign(new Error('the network failed'), { code: 'Z_DATA_ERROR' })
    for (const given of [0, 10, two.length]) {
      async function* failing() {
        yield two.subarray(0, given)
        throw failure
      }
      await expect(read(failing())).rejects.toBe(failure)
    }
  })

  test.each(['stops', 'fails'])('decompression closes its source before a reader that %s continues', async (how) => {
    const seen = { open: 0 }
    async function* source() {
      seen.open++
      try {
        for (let piece = 0; piece < 1_000; piece++) yield gzipSync(Buffer.alloc(100_000, piece))
      } finally {
        await new Promise(setImmediate)
        seen.open--
      }
    }
    const reading = async () => {
      for await (const _ of gunzipped(source())) {
        if (how === 'fails') throw new Error('the reader failed')
        break
      }
    }
    await (how === 'fails' ? expect(reading()).rejects.toThrow('the reader failed') : reading())
    expect(seen.open).toBe(0)
  })
})
