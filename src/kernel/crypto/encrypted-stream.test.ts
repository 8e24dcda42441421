import { createCipheriv, hkdfSync, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  DecryptionError,
  decryptStream,
  encryptStream,
  isEncrypted,
  MAGIC_BYTES,
  type StreamKey,
} from './encrypted-stream.ts'

const CHUNK = 64 * 1024
const TAG = 16
const HEADER = 'tenantry-sealed 1\n'.length + 8 + 32

const key: StreamKey = { id: '0a1b2c3d', secret: randomBytes(32) }
const otherKey: StreamKey = { id: 'ffffffff', secret: randomBytes(32) }

async function* inPieces(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunks))
}

const encrypt = (plain: Uint8Array, binding = 'backup 1', size = 1_000_000) =>
  bytesOf(encryptStream(inPieces(plain, size), binding, key))

const decrypt = (bytes: Uint8Array, binding = 'backup 1', keys = [otherKey, key], size = 1_000_000) =>
  bytesOf(decryptStream(inPieces(bytes, size), binding, keys))

/** The header, then each chunk with its tag. */
function partsOf(bytes: Buffer): Buffer[] {
  const parts = [bytes.subarray(0, HEADER)]
  for (let at = HEADER; at < bytes.length; at += CHUNK + TAG) parts.push(bytes.subarray(at, at + CHUNK + TAG))
  return parts
}

interface Chunk {
  readonly plain: Buffer
  readonly number: number
  readonly isLast: boolean
}

const chunk = (plain: Buffer, number: number, isLast = false): Chunk => ({ plain, number, isLast })

/** A chunk as the format describes it, with any number and flag. */
function chunkOf(header: Buffer, { plain, number, isLast }: Chunk): Buffer {
  const streamKey = hkdfSync('sha256', key.secret, header.subarray(-32), 'tenantry sealed stream', 32)
  const nonce = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number, isLast ? 1 : 0])
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(streamKey), nonce)
  cipher.setAAD(Buffer.concat([header, Buffer.from('backup 1')]))
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

const threeChunks = randomBytes(2 * CHUNK + 5)

describe('an encrypted stream', () => {
  test('decrypts to the plain text, regardless of the pieces of both', async () => {
    const lengths = fc.oneof(
      fc.nat(300),
      fc.constantFrom(CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1),
      fc.nat(3 * CHUNK),
    )
    const sizes = fc.oneof(fc.constantFrom(CHUNK, CHUNK + TAG, 1_000_000), fc.integer({ min: 500, max: 2 * CHUNK }))
    await fc.assert(
      fc.asyncProperty(lengths, sizes, sizes, fc.string(), async (length, encryptedBy, decryptedBy, binding) => {
        const plain = randomBytes(length)
        const bytes = await encrypt(plain, binding, encryptedBy)
        expect(bytes.length).toBe(HEADER + length + TAG * Math.max(1, Math.ceil(length / CHUNK)))
        expect((await decrypt(bytes, binding, [key], decryptedBy)).equals(plain)).toBe(true)
      }),
      { numRuns: 60 },
    )
  })

  test('accepts single bytes, and differs for each encryption of a plain text', async () => {
    const plain = Buffer.from('correct horse')
    const [first, second] = [await encrypt(plain, 'backup 1', 1), await encrypt(plain)]
    expect(await decrypt(first, 'backup 1', [key], 1)).toEqual(plain)
    expect(first.subarray(HEADER)).not.toEqual(second.subarray(HEADER))
    expect(first.includes('correct')).toBe(false)
  })

  test('has the format of docs/decisions/encrypted-stream.md', async () => {
    const bytes = await encrypt(Buffer.from('plain'))
    const [header, body] = [bytes.subarray(0, HEADER), bytes.subarray(HEADER)]
    expect(header.subarray(0, -32).toString()).toBe(`tenantry-sealed 1\n${key.id}`)
    expect(body).toEqual(chunkOf(header, { plain: Buffer.from('plain'), number: 0, isLast: true }))
  })

  test('is recognised by its first 18 bytes', async () => {
    const bytes = await encrypt(Buffer.from('plain'))
    expect(isEncrypted(bytes)).toBe(true)
    expect(isEncrypted(bytes.subarray(0, MAGIC_BYTES))).toBe(true)
    expect(isEncrypted(bytes.subarray(0, MAGIC_BYTES - 1))).toBe(false)
    expect(isEncrypted(Buffer.from('tenantry-sealed 2\nand more'))).toBe(false)
    expect(isEncrypted(Buffer.alloc(0))).toBe(false)
  })
})

describe('decryption rejects', () => {
  test('a stream truncated at any byte', async () => {
    const short = await encrypt(Buffer.from('correct horse battery staple'))
    for (let length = 0; length < short.length; length++) {
      await expect(decrypt(short.subarray(0, length)), `${length} bytes`).rejects.toThrow(DecryptionError)
    }
    const long = await encrypt(threeChunks)
    const ends = [HEADER, HEADER + CHUNK + TAG, HEADER + 2 * (CHUNK + TAG)]
    for (const length of ends.flatMap((end) => [end - 1, end, end + 1, end + TAG - 1, end + TAG])) {
      await expect(decrypt(long.subarray(0, length)), `${length} bytes`).rejects.toThrow(DecryptionError)
    }
  })

  test('a stream with any one bit changed', async () => {
    const bytes = await encrypt(Buffer.from('correct horse'))
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes)
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      await expect(decrypt(changed), `bit ${bit}`).rejects.toThrow(DecryptionError)
    }
  })

  test('a stream with bytes behind its end', async () => {
    for (const plain of [Buffer.alloc(0), Buffer.from('plain'), randomBytes(CHUNK), threeChunks]) {
      const bytes = await encrypt(plain)
      for (const more of [Buffer.alloc(1), Buffer.alloc(TAG), randomBytes(CHUNK + TAG), bytes]) {
        await expect(decrypt(Buffer.concat([bytes, more]))).rejects.toThrow(DecryptionError)
      }
    }
  })

  test('chunks dropped, duplicated, reordered, or taken from another stream of the same key', async () => {
    const [header, first, second, last] = partsOf(await encrypt(threeChunks)) as [Buffer, Buffer, Buffer, Buffer]
    const [otherHeader, otherFirst, , otherLast] = partsOf(await encrypt(threeChunks)) as [
      Buffer,
      Buffer,
      Buffer,
      Buffer,
    ]
    expect((await decrypt(Buffer.concat([header, first, second, last]))).equals(threeChunks)).toBe(true)
    for (const parts of [
      [header, second, last],
      [header, first, last],
      [header, first, second],
      [header, last],
      [header],
      [header, second, first, last],
      [header, last, second, first],
      [header, first, first, second, last],
      [header, first, second, last, last],
      [header, otherFirst, second, last],
      [header, first, second, otherLast],
      [otherHeader, first, second, last],
      [first, second, last],
    ]) {
      await expect(decrypt(Buffer.concat(parts))).rejects.toThrow(DecryptionError)
    }
  })

  test('a change of any part of a long stream', async () => {
    const bytes = await encrypt(threeChunks)
    const [magic, keyId, salt] = [0, 18, 26]
    const chunks = [0, 1, 2].map((number) => HEADER + number * (CHUNK + TAG))
    const tags = [...chunks.slice(1), bytes.length].map((end) => end - 1)
    for (const at of [magic, keyId, salt, HEADER - 1, ...chunks, ...tags]) {
      for (const bit of [0x01, 0x80]) {
        const changed = Buffer.from(bytes)
        changed[at] = (changed[at] ?? 0) ^ bit
        await expect(decrypt(changed), `byte ${at}`).rejects.toThrow(DecryptionError)
      }
    }
  })

  const full = Buffer.alloc(CHUNK, 'x')
  const short = Buffer.from('short')
  const empty = Buffer.alloc(0)

  test.each<[string, Chunk[]]>([
    ['an empty last chunk behind a full chunk', [chunk(full, 0), chunk(empty, 1, true)]],
    ['no last chunk, behind a full chunk', [chunk(full, 0)]],
    ['no last chunk, behind a short chunk', [chunk(short, 0)]],
    ['a full chunk and a short chunk, neither of them the last', [chunk(full, 0), chunk(short, 1)]],
    ['a short chunk before the last', [chunk(short, 0), chunk(short, 1, true)]],
    ['a short second chunk before the last', [chunk(full, 0), chunk(short, 1), chunk(short, 2, true)]],
    ['two last chunks', [chunk(short, 0, true), chunk(short, 1, true)]],
    ['two full last chunks', [chunk(full, 0, true), chunk(full, 1, true)]],
    ['a first chunk with the number 1', [chunk(full, 1), chunk(short, 2, true)]],
    ['a number used twice', [chunk(full, 0), chunk(short, 0, true)]],
  ])('%s, although each chunk is authentic', async (_, chunks) => {
    const header = (await encrypt(short)).subarray(0, HEADER)
    await expect(decrypt(Buffer.concat([header, ...chunks.map((one) => chunkOf(header, one))]))).rejects.toThrow(
      DecryptionError,
    )
  })

  test('no chunk of a valid sequence that is built in the same way', async () => {
    const header = (await encrypt(short)).subarray(0, HEADER)
    for (const chunks of [[chunk(empty, 0, true)], [chunk(full, 0, true)], [chunk(full, 0), chunk(full, 1, true)]]) {
      const bytes = Buffer.concat([header, ...chunks.map((one) => chunkOf(header, one))])
      expect((await decrypt(bytes)).equals(Buffer.concat(chunks.map(({ plain }) => plain)))).toBe(true)
    }
  })

  test('a chunk of a stream with another binding', async () => {
    const [header, first, , last] = partsOf(await encrypt(threeChunks)) as [Buffer, Buffer, Buffer, Buffer]
    const [, , other] = partsOf(await encrypt(threeChunks, 'backup 2')) as [Buffer, Buffer, Buffer]
    await expect(decrypt(Buffer.concat([header, first, other, last]))).rejects.toThrow(DecryptionError)
  })

  test('another binding', async () => {
    const bytes = await encrypt(Buffer.from('plain'), 'backup 1')
    for (const binding of ['backup 2', 'backup', 'backup 11', '']) {
      await expect(decrypt(bytes, binding)).rejects.toThrow('the stream is not encrypted, or was altered')
    }
  })

  test('a key that is not configured, and another key with the same id', async () => {
    const bytes = await encrypt(Buffer.from('plain'))
    const notConfigured = 'encrypted with an application key that is not configured'
    await expect(decrypt(bytes, 'backup 1', [otherKey])).rejects.toThrow(notConfigured)
    await expect(decrypt(bytes, 'backup 1', [])).rejects.toThrow(notConfigured)
    await expect(decrypt(bytes, 'backup 1', [{ id: key.id, secret: otherKey.secret }])).rejects.toThrow('altered')
  })

  test('bytes that are not an encrypted stream', async () => {
    for (const text of ['', 'PK', 'x'.repeat(1_000), 'tenantry-sealed 1\n']) {
      await expect(decrypt(Buffer.from(text))).rejects.toThrow('the stream is not encrypted, or was altered')
    }
  })
})

test('decryption yields only authenticated bytes', async () => {
  const bytes = await encrypt(threeChunks)
  const at = HEADER + CHUNK + TAG + 10
  bytes[at] = (bytes[at] ?? 0) ^ 1
  let passed = 0
  const reading = async () => {
    for await (const piece of decryptStream(inPieces(bytes, 1_000), 'backup 1', [key])) passed += piece.length
  }
  await expect(reading()).rejects.toThrow(DecryptionError)
  expect(passed).toBe(CHUNK)
})

describe('the source of a stream', () => {
  test('is closed when the consumer stops', async () => {
    let openSources = 0
    async function* source(bytes: Uint8Array) {
      openSources++
      try {
        yield* inPieces(bytes, 100_000)
      } finally {
        openSources--
      }
    }
    for (const stream of [
      encryptStream(source(threeChunks), 'b', key),
      decryptStream(source(await encrypt(threeChunks)), 'backup 1', [key]),
    ]) {
      await stream.next()
      await stream.next()
      expect(openSources).toBe(1)
      await stream.return()
      expect(openSources).toBe(0)
    }
  })

  test('passes its error unchanged', async () => {
    const failure = new Error('network lost')
    const bytes = await encrypt(threeChunks)
    async function* failing() {
      yield bytes.subarray(0, CHUNK + 1_000)
      throw failure
    }
    await expect(bytesOf(encryptStream(failing(), 'b', key))).rejects.toBe(failure)
    await expect(bytesOf(decryptStream(failing(), 'backup 1', [key]))).rejects.toBe(failure)
  })
})
