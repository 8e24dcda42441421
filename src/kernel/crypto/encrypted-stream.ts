/**
 * A stream of bytes under a key, for what is too long to be held: the construction is STREAM, over AES-256-GCM.
 *
 *   tenantry-sealed 1\n │ key id, 8 │ salt, 32 │ chunk 0: 64 KiB + tag, 16 │ chunk 1 │ … │ last chunk: 0 to 64 KiB + tag
 *
 * Each stream has a key of its own, derived from the one that is given and the salt. The nonce of a chunk is its number and whether
 * it is the last, so chunks that are dropped, repeated, put in another order, or cut off at the end do not open. The header and
 * the binding (what the stream belongs to) are authenticated with every chunk. Nothing is yielded before its tag was checked; that
 * it was all, one knows at the end.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { ByteSource } from '../base/byte-source.ts'

const MAGIC = Buffer.from('tenantry-sealed 1\n')
const KEY_ID_BYTES = 8
const SALT_BYTES = 32
const HEADER_BYTES = MAGIC.length + KEY_ID_BYTES + SALT_BYTES
const CHUNK_BYTES = 64 * 1024
const TAG_BYTES = 16
const NONCE_BYTES = 12
/** Bytes of a nonce that count chunks; one more tells whether it is the last, and the others are 0. */
const COUNTER_BYTES = 6
const KEY_BYTES = 32

export interface StreamKey {
  /** 8 characters of ASCII; stands in the header, so that the right one of several keys is taken. */
  readonly id: string
  readonly secret: Buffer
}

/** How many bytes `isEncrypted` looks at. */
export const MAGIC_BYTES = MAGIC.length

/** Whether bytes that begin so are an encrypted stream. */
export const isEncrypted = (first: Uint8Array): boolean => MAGIC.equals(first.subarray(0, MAGIC.length))

/** A stream that is not sealed, was altered or cut, is bound to something else, or is under a key that nobody has. */
export class DecryptionError extends Error {
  override readonly name = 'DecryptionError'
}

export async function* encryptStream(
  chunks: AsyncIterable<Uint8Array>,
  binding: string,
  key: StreamKey,
): AsyncGenerator<Buffer, void, undefined> {
  const plain = new ByteSource(chunks)
  try {
    const header = Buffer.concat([MAGIC, Buffer.from(key.id, 'latin1'), randomBytes(SALT_BYTES)])
    const streamCipher = chunkCipher(header, binding, key.secret)
    yield header
    for (let number = 0, isLast = false; !isLast; number++) {
      const pieces = await plain.pieces(CHUNK_BYTES)
      isLast = !(await plain.hasMore())
      const cipher = createCipheriv('aes-256-gcm', streamCipher.key, nonce(number, isLast)).setAAD(
        streamCipher.authenticated,
      )
      yield Buffer.concat([...pieces.map((piece) => cipher.update(piece)), cipher.final(), cipher.getAuthTag()])
    }
  } finally {
    await plain.close()
  }
}

/** Throws `DecryptionError`; what `chunks` throws passes as it is. */
export async function* decryptStream(
  chunks: AsyncIterable<Uint8Array>,
  binding: string,
  keys: readonly StreamKey[],
): AsyncGenerator<Buffer, void, undefined> {
  const source = new ByteSource(chunks)
  try {
    const header = await source.exactly(HEADER_BYTES)
    if (!isEncrypted(header) || header.length < HEADER_BYTES)
      throw new DecryptionError('not a sealed stream, or altered')
    const id = header.toString('latin1', MAGIC.length, MAGIC.length + KEY_ID_BYTES)
    const key = keys.find((one) => one.id === id)
    if (!key) throw new DecryptionError('sealed under an application key that is not configured')
    const streamCipher = chunkCipher(header, binding, key.secret)
    for (let number = 0, isLast = false; !isLast; number++) {
      const chunk = await source.exactly(CHUNK_BYTES + TAG_BYTES)
      isLast = !(await source.hasMore())
      const plain = decryptChunk(chunk, streamCipher, nonce(number, isLast))
      if (plain.length > 0) yield plain
    }
  } finally {
    await source.close()
  }
}

interface ChunkCipher {
  readonly key: Buffer
  readonly authenticated: Buffer
}

function chunkCipher(header: Buffer, binding: string, secret: Buffer): ChunkCipher {
  const salt = header.subarray(-SALT_BYTES)
  return {
    key: Buffer.from(hkdfSync('sha256', secret, salt, 'tenantry sealed stream', KEY_BYTES)),
    // The header is always as long, so no binding can pass for the end of one.
    authenticated: Buffer.concat([header, Buffer.from(binding)]),
  }
}

function decryptChunk(chunk: Buffer, { key, authenticated }: ChunkCipher, iv: Buffer): Buffer {
  // Node would take a tag of 4 bytes for a whole one.
  if (chunk.length < TAG_BYTES) throw new DecryptionError('not a sealed stream, or altered')
  const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
    .setAAD(authenticated)
    .setAuthTag(chunk.subarray(-TAG_BYTES))
  const plain = decipher.update(chunk.subarray(0, -TAG_BYTES))
  try {
    decipher.final() // in this mode it checks the tag and answers no bytes
  } catch (cause) {
    throw new DecryptionError('not a sealed stream, or altered', { cause })
  }
  return plain
}

function nonce(number: number, isLast: boolean): Buffer {
  const bytes = Buffer.alloc(NONCE_BYTES)
  bytes.writeUIntBE(number, NONCE_BYTES - COUNTER_BYTES - 1, COUNTER_BYTES)
  bytes[NONCE_BYTES - 1] = isLast ? 1 : 0
  return bytes
}
