import { createCipheriv, hkdfSync, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSealed, MAGIC_BYTES, NotOpened, type StreamKey, sealed, unsealed } from './encrypted-stream.ts'

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

const seal = (plain: Uint8Array, binding = 'backup 1', size = 1_000_000) =>
  bytesOf(sealed(inPieces(plain, size), binding, key))

const open = (bytes: Uint8Array, binding = 'backup 1', keys = [otherKey, key], size = 1_000_000) =>
  bytesOf(unsealed(inPieces(bytes, size), binding, keys))

/** The header, then each chunk with its tag. */
function partsOf(bytes: Buffer): Buffer[] {
  const parts = [bytes.subarray(0, HEADER)]
  for (let at = HEADER; at < bytes.length; at += CHUNK + TAG) parts.push(bytes.subarray(at, at + CHUNK + TAG))
  return parts
}

const threeChunks = randomBytes(2 * CHUNK + 5)

describe('a sealed stream', () => {
  test('opens to what was sealed, however either was cut', async () => {
    const lengths = fc.oneof(
      fc.nat(300),
      fc.constantFrom(CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1),
      fc.nat(3 * CHUNK),
    )
    const sizes = fc.oneof(fc.constantFrom(CHUNK, CHUNK + TAG, 1_000_000), fc.integer({ min: 500, max: 2 * CHUNK }))
    await fc.assert(
      fc.asyncProperty(lengths, sizes, sizes, fc.string(), async (length, sealedBy, openedBy, binding) => {
        const plain = randomBytes(length)
        const bytes = await seal(plain, binding, sealedBy)
        expect(bytes.length).toBe(HEADER + length + TAG * Math.max(1, Math.ceil(length / CHUNK)))
        expect((await open(bytes, binding, [key], openedBy)).equals(plain)).toBe(true)
      }),
      { numRuns: 60 },
    )
  })

  test('comes byte by byte too, and is never the same twice', async () => {
    const plain = Buffer.from('correct horse')
    const [first, second] = [await seal(plain, 'backup 1', 1), await seal(plain)]
    expect(await open(first, 'backup 1', [key], 1)).toEqual(plain)
    expect(first.subarray(HEADER)).not.toEqual(second.subarray(HEADER))
    expect(first.includes('correct')).toBe(false)
  })

  test('is as it is written down', async () => {
    const bytes = await seal(Buffer.from('plain'))
    const [header, body] = [bytes.subarray(0, HEADER), bytes.subarray(HEADER)]
    expect(header.subarray(0, -32).toString()).toBe(`tenantry-sealed 1\n${key.id}`)
    const streamKey = hkdfSync('sha256', key.secret, header.subarray(-32), 'tenantry sealed stream', 32)
    const cipher = createCipheriv(
      'aes-256-gcm',
      Buffer.from(streamKey),
      Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    )
    cipher.setAAD(Buffer.concat([header, Buffer.from('backup 1')]))
    expect(body).toEqual(Buffer.concat([cipher.update('plain'), cipher.final(), cipher.getAuthTag()]))
  })

  test('is known by how it begins', async () => {
    const bytes = await seal(Buffer.from('plain'))
    expect(isSealed(bytes)).toBe(true)
    expect(isSealed(bytes.subarray(0, MAGIC_BYTES))).toBe(true)
    expect(isSealed(bytes.subarray(0, MAGIC_BYTES - 1))).toBe(false)
    expect(isSealed(Buffer.from('tenantry-sealed 2\nand more'))).toBe(false)
    expect(isSealed(Buffer.alloc(0))).toBe(false)
  })
})

describe('does not open', () => {
  test('cut short, wherever', async () => {
    const short = await seal(Buffer.from('correct horse battery staple'))
    for (let length = 0; length < short.length; length++) {
      await expect(open(short.subarray(0, length)), `${length} bytes`).rejects.toThrow(NotOpened)
    }
    const long = await seal(threeChunks)
    const ends = [HEADER, HEADER + CHUNK + TAG, HEADER + 2 * (CHUNK + TAG)]
    for (const length of ends.flatMap((end) => [end - 1, end, end + 1, end + TAG - 1, end + TAG])) {
      await expect(open(long.subarray(0, length)), `${length} bytes`).rejects.toThrow(NotOpened)
    }
  })

  test('with any one bit changed', async () => {
    const bytes = await seal(Buffer.from('correct horse'))
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes)
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      await expect(open(changed), `bit ${bit}`).rejects.toThrow(NotOpened)
    }
  })

  test('longer than it was', async () => {
    for (const plain of [Buffer.alloc(0), Buffer.from('plain'), randomBytes(CHUNK), threeChunks]) {
      const bytes = await seal(plain)
      for (const more of [Buffer.alloc(1), Buffer.alloc(TAG), randomBytes(CHUNK + TAG), bytes]) {
        await expect(open(Buffer.concat([bytes, more]))).rejects.toThrow(NotOpened)
      }
    }
  })

  test('with chunks dropped, repeated, swapped, or of another stream under the same key', async () => {
    const [header, first, second, last] = partsOf(await seal(threeChunks)) as [Buffer, Buffer, Buffer, Buffer]
    const [otherHeader, otherFirst, , otherLast] = partsOf(await seal(threeChunks)) as [Buffer, Buffer, Buffer, Buffer]
    expect((await open(Buffer.concat([header, first, second, last]))).equals(threeChunks)).toBe(true)
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
      await expect(open(Buffer.concat(parts))).rejects.toThrow(NotOpened)
    }
  })

  test('for what it does not belong to', async () => {
    const bytes = await seal(Buffer.from('plain'), 'backup 1')
    for (const binding of ['backup 2', 'backup', 'backup 11', '']) {
      await expect(open(bytes, binding)).rejects.toThrow('not a sealed stream, or altered')
    }
  })

  test('without its key, and says why', async () => {
    const bytes = await seal(Buffer.from('plain'))
    const notConfigured = 'sealed under an application key that is not configured'
    await expect(open(bytes, 'backup 1', [otherKey])).rejects.toThrow(notConfigured)
    await expect(open(bytes, 'backup 1', [])).rejects.toThrow(notConfigured)
    await expect(open(bytes, 'backup 1', [{ id: key.id, secret: otherKey.secret }])).rejects.toThrow('altered')
  })

  test('what is no sealed stream', async () => {
    for (const text of ['', 'PK', 'x'.repeat(1_000), 'tenantry-sealed 1\n']) {
      await expect(open(Buffer.from(text))).rejects.toThrow('not a sealed stream, or altered')
    }
  })
})

test('nothing is passed on before it has been authenticated', async () => {
  const bytes = await seal(threeChunks)
  const at = HEADER + CHUNK + TAG + 10
  bytes[at] = (bytes[at] ?? 0) ^ 1
  let passed = 0
  const reading = async () => {
    for await (const piece of unsealed(inPieces(bytes, 1_000), 'backup 1', [key])) passed += piece.length
  }
  await expect(reading()).rejects.toThrow(NotOpened)
  expect(passed).toBe(CHUNK)
})

describe('what it is made of', () => {
  test('is let go of by whoever stops', async () => {
    let open = 0
    async function* source(bytes: Uint8Array) {
      open++
      try {
        yield* inPieces(bytes, 100_000)
      } finally {
        open--
      }
    }
    for (const stream of [
      sealed(source(threeChunks), 'b', key),
      unsealed(source(await seal(threeChunks)), 'backup 1', [key]),
    ]) {
      await stream.next()
      await stream.next()
      expect(open).toBe(1)
      await stream.return()
      expect(open).toBe(0)
    }
  })

  test('fails as it fails', async () => {
    const failure = new Error('the network is gone')
    const bytes = await seal(threeChunks)
    async function* failing() {
      yield bytes.subarray(0, CHUNK + 1_000)
      throw failure
    }
    await expect(bytesOf(sealed(failing(), 'b', key))).rejects.toBe(failure)
    await expect(bytesOf(unsealed(failing(), 'backup 1', [key]))).rejects.toBe(failure)
  })
})
