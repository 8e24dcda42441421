/**
 * Compression and decompression of archives. Gzip members can be concatenated: separately compressed parts form one
 * file without a second compression.
 */
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { createGunzip, gzip } from 'node:zlib'
import { altered, truncated } from './errors.ts'

/** The fastest level of zlib, to keep the pace of COPY. */
const LEVEL = 1
/** Input of one decompression step: each step is one task of the thread pool. */
const PIECE_BYTES = 128 * 1024
/** Input of one compression step. */
const BLOCK_BYTES = 2 * 1024 * 1024
/** Concurrent compressions. More brought no gain on two cores shared with a PostgreSQL server. */
const AT_ONCE = 2
const MAGIC = Buffer.from([0x1f, 0x8b, 0x08])

/** Number of bytes that `isGzip` reads. */
export const GZIP_MAGIC_BYTES = MAGIC.length
export const isGzip = (first: Uint8Array): boolean => MAGIC.equals(first.subarray(0, MAGIC.length))

/** One complete member. */
export const member = (bytes: Buffer): Promise<Buffer> =>
  promisify(gzip)(bytes, { level: LEVEL, chunkSize: Math.max(bytes.length, 1_024) })

/** Compresses a long input as consecutive members, several concurrently, each in a thread of the pool. */
export async function* members(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  const compressing: Promise<Buffer>[] = []
  try {
    for await (const block of blocks(chunks)) {
      compressing.push(member(block))
      const first = compressing.length < AT_ONCE ? undefined : compressing.shift()
      if (first) yield await first
    }
    for (let next = compressing.shift(); next; next = compressing.shift()) yield await next
  } finally {
    await Promise.allSettled(compressing)
  }
}

async function* blocks(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  let pieces: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of chunks) {
    pieces.push(chunk)
    bytes += chunk.length
    if (bytes < BLOCK_BYTES) continue
    yield Buffer.concat(pieces)
    pieces = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(pieces)
}

/** Decompresses `chunks`, which must be gzip up to their end. Errors of `chunks` pass through unchanged. */
export async function* gunzipped(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  let given = 0
  let failure: { readonly error: unknown } | undefined
  async function* watched() {
    try {
      for await (const chunk of chunks) {
        given += chunk.length
        yield chunk
      }
    } catch (error) {
      failure = { error }
      throw error
    }
  }
  const gunzip = createGunzip({ chunkSize: PIECE_BYTES })
  // An error here destroys `gunzip`, so the loop below throws it.
  const feeding = pipeline(watched, gunzip).catch(() => undefined)
  try {
    for await (const piece of gunzip as AsyncIterable<Buffer>) yield piece
  } catch (error) {
    throw failure ? failure.error : rejection(error)
  } finally {
    gunzip.destroy()
    await feeding
  }
  // zlib accepts zeros after a member as padding without an error.
  if (gunzip.bytesWritten < given) throw altered('data follows the end of the archive')
}

function rejection(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'Z_BUF_ERROR') return truncated(error)
  return code === 'Z_DATA_ERROR' || code === 'Z_NEED_DICT' ? altered('it cannot be decompressed', error) : error
}
