import { gunzipSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { gunzipped, isGzip, member, members } from './gzip.ts'

async function* inPieces(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const read = async (chunks: AsyncIterable<Uint8Array>) => Buffer.concat(await Array.fromAsync(gunzipped(chunks)))

const two = Buffer.concat([gzipSync('first '), gzipSync('second')])

test('members are one text, wherever they are cut', async () => {
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

describe('what is long', () => {
  const MIB = 1024 * 1024
  const long = Buffer.from(Array.from({ length: 400_000 }, (_, n) => `row ${n},`).join('')) // more than a few blocks

  test.each([1_000, 70_000, MIB, 10 * MIB])('is the same afterwards, in pieces of %d', async (size) => {
    const bytes = Buffer.concat(await Array.fromAsync(members(inPieces(long, size))))
    expect(bytes.length).toBeLessThan(long.length / 2)
    expect((await read(inPieces(bytes, 50_000))).equals(long)).toBe(true)
    expect(gunzipSync(bytes).equals(long)).toBe(true)
  })

  test('fails as what it is made from', async () => {
    async function* failing() {
      yield long
      throw new Error('the server is gone')
    }
    await expect(Array.fromAsync(members(failing()))).rejects.toThrow('the server is gone')
  })

  test('is read no further than whoever takes it goes on', async () => {
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

describe('refused is', () => {
  test.each([
    ['what ends in a member', two.subarray(0, -1), 'truncated'],
    ['what ends in a header', two.subarray(0, 30), 'truncated'],
    ['nothing at all', Buffer.alloc(0), 'truncated'],
    ['what is not gzip', Buffer.from('a,b\n1,2\n'), 'does not decompress'],
    ['text behind the last member', Buffer.concat([two, Buffer.from('more')]), 'does not decompress'],
    ['a zero behind the last member', Buffer.concat([two, Buffer.alloc(1)]), 'something follows its end'],
    ['zeros, and then more', Buffer.concat([two, Buffer.alloc(100_000), two]), 'something follows its end'],
  ])('%s', async (_, bytes, reason) => {
    for (const size of [1, 10, two.length, 1_000_000]) {
      await expect(read(inPieces(bytes, size)), `in pieces of ${size}`).rejects.toMatchObject({
        code: 'E_BACKUP_INCOMPATIBLE',
        message: expect.stringContaining(reason),
      })
    }
  })
})

describe('what it is read from', () => {
  test('fails as it fails, also with an error that looks like one of zlib', async () => {
    const failure = Object.assign(new Error('the network is gone'), { code: 'Z_DATA_ERROR' })
    for (const given of [0, 10, two.length]) {
      async function* failing() {
        yield two.subarray(0, given)
        throw failure
      }
      await expect(read(failing())).rejects.toBe(failure)
    }
  })

  test.each(['stops', 'fails'])('is let go of before whoever %s goes on', async (how) => {
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
