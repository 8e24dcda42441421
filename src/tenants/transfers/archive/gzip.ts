/**
 * Gzip as archives use it. A gzip file is one member after another, and reads as if it were one: so what is compressed apart can
 * be put together without being compressed again.
 */
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { createGunzip, gzip } from 'node:zlib'
import { altered, truncated } from './errors.ts'

/** The fastest of zlib: a backup is to be made at the pace of COPY. */
const LEVEL = 1
/** What is passed on at a time: each piece is a turn through a thread. */
const PIECE_BYTES = 128 * 1024
/** What is compressed at a time. */
const BLOCK_BYTES = 2 * 1024 * 1024
/** More of them gained nothing where two cores had to do with a server, too. */
const AT_ONCE = 2
const MAGIC = Buffer.from([0x1f, 0x8b, 0x08])

/** How many bytes `isGzip` looks at. */
export const GZIP_MAGIC_BYTES = MAGIC.length
export const isGzip = (first: Uint8Array): boolean => MAGIC.equals(first.subarray(0, MAGIC.length))

/** A member that is whole. */
export const member = (bytes: Buffer): Promise<Buffer> =>
  promisify(gzip)(bytes, { level: LEVEL, chunkSize: Math.max(bytes.length, 1_024) })

/** What is longer, as one member after the other: several are compressed at once, each by a thread of its own. */
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

/** What was compressed, when all of `chunks` is gzip. What they throw passes as it is. */
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
  // What fails here fails `gunzip`, so the loop below throws it.
  const feeding = pipeline(watched, gunzip).catch(() => undefined)
  try {
    for await (const piece of gunzip as AsyncIterable<Buffer>) yield piece
  } catch (error) {
    throw failure ? failure.error : rejection(error)
  } finally {
    gunzip.destroy()
    await feeding
  }
  // zlib takes zeros behind a member for padding, and says nothing.
  if (gunzip.bytesWritten < given) throw altered('something follows its end')
}

function rejection(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'Z_BUF_ERROR') return truncated(error)
  return code === 'Z_DATA_ERROR' || code === 'Z_NEED_DICT' ? altered('it does not decompress', error) : error
}
