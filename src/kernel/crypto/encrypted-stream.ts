/**
 * Encrypts and decrypts a stream of bytes by the STREAM construction over AES-256-GCM: docs/decisions/encrypted-stream.md.
 *
 *   tenantry-sealed 1\n │ key id, 8 │ salt, 32 │ chunk 0: 64 KiB + tag, 16 │ chunk 1 │ … │ last chunk: 0 to 64 KiB + tag
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
/** Bytes of a nonce that contain the number of the chunk. One more byte is 1 for the last chunk; the others are 0. */
const COUNTER_BYTES = 6
const KEY_BYTES = 32

export interface StreamKey {
  /** 8 ASCII characters. The header contains them, so that decryption finds the key. */
  readonly id: string
  readonly secret: Buffer
}

/** The number of bytes that `isEncrypted` compares. */
export const MAGIC_BYTES = MAGIC.length

export const isEncrypted = (first: Uint8Array): boolean => MAGIC.equals(first.subarray(0, MAGIC.length))

/** The stream is not encrypted, was altered or truncated, has another binding, or its key is not configured. */
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

/**
 * Yields only authenticated bytes. They are complete only when the generator has ended. Throws `DecryptionError`; an error of `chunks`
 * passes unchanged.
 */
export async function* decryptStream(
  chunks: AsyncIterable<Uint8Array>,
  binding: string,
  keys: readonly StreamKey[],
): AsyncGenerator<Buffer, void, undefined> {
  const source = new ByteSource(chunks)
  try {
    const header = await source.exactly(HEADER_BYTES)
    if (!isEncrypted(header) || header.length < HEADER_BYTES)
      throw new DecryptionError('the stream is not encrypted, or was altered')
    const id = header.toString('latin1', MAGIC.length, MAGIC.length + KEY_ID_BYTES)
    const key = keys.find((one) => one.id === id)
    if (!key) throw new DecryptionError('encrypted with an application key that is not configured')
    const streamCipher = chunkCipher(header, binding, key.secret)
    for (let number = 0, isLast = false; !isLast; number++) {
      const chunk = await source.exactly(CHUNK_BYTES + TAG_BYTES)
      isLast = !(await source.hasMore())
      const plain = decryptChunk(chunk, streamCipher, nonce(number, isLast))
      // One plain text has one sequence of chunks.
      if (plain.length === 0 && number > 0) throw new DecryptionError('the stream is not encrypted, or was altered')
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
    // The header has a constant length, so a binding cannot be mistaken for a part of it.
    authenticated: Buffer.concat([header, Buffer.from(binding)]),
  }
}

function decryptChunk(chunk: Buffer, { key, authenticated }: ChunkCipher, iv: Buffer): Buffer {
  // Node.js accepts a tag of 4 bytes.
  if (chunk.length < TAG_BYTES) throw new DecryptionError('the stream is not encrypted, or was altered')
  const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES })
    .setAAD(authenticated)
    .setAuthTag(chunk.subarray(-TAG_BYTES))
  const plain = decipher.update(chunk.subarray(0, -TAG_BYTES))
  try {
    decipher.final() // in GCM it checks the tag and returns no bytes
  } catch (cause) {
    throw new DecryptionError('the stream is not encrypted, or was altered', { cause })
  }
  return plain
}

function nonce(number: number, isLast: boolean): Buffer {
  const bytes = Buffer.alloc(NONCE_BYTES)
  bytes.writeUIntBE(number, NONCE_BYTES - COUNTER_BYTES - 1, COUNTER_BYTES)
  bytes[NONCE_BYTES - 1] = isLast ? 1 : 0
  return bytes
}
