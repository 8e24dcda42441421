/** Storage for the archives suite, and archive contents of any size that are compared by hash. */
import { createHash, randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Archives, StoredArchive, WriteOptions } from '../../tenants/transfers/archive/port.ts'

export interface ArchivesSubject {
  /** Starts a driver on the storage, which is empty at first. A second driver represents another process. */
  open(): Promise<Archives>
  /**
   * Leaves the remains of a process that was killed after 20 MB of `key`. Required for drivers that list partial
   * archives.
   */
  crash?(key: string): Promise<void>
  /** Stops the drivers and removes the storage. */
  close(): Promise<void>
}

export const MB = 1_000_000
/** Default of `ArchivesAbilities.partBytes`. */
export const PART_BYTES = 8 * 1024 * 1024
const CHUNK_BYTES = 65_536
const noise = randomBytes(CHUNK_BYTES)

export interface Content {
  readonly bytes: number
  readonly sha256: string
}

/** Yields chunks of the sizes that a file stream has; the bytes differ by position and by `seed`. */
export async function* content(bytes: number, seed = 0): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0; at < bytes; at += CHUNK_BYTES) {
    const chunk = Buffer.from(noise)
    chunk.writeUInt32BE(seed, 0)
    chunk.writeUInt32BE(at / CHUNK_BYTES, 4)
    yield chunk.subarray(0, bytes - at)
  }
}

export async function contentOf(chunks: AsyncIterable<Uint8Array>): Promise<Content> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of chunks) {
    hash.update(chunk)
    bytes += chunk.length
  }
  return { bytes, sha256: hash.digest('hex') }
}

/** Yields `bytes` of content, then waits for the promise before it ends. */
export async function* blockedUntil(
  bytes: number,
  released: Promise<void>,
  seed = 0,
): AsyncGenerator<Buffer, void, undefined> {
  yield* content(bytes, seed)
  await released
}

export async function* failing(bytes: number, failure: Error, seed = 0): AsyncGenerator<Buffer, void, undefined> {
  yield* content(bytes, seed)
  throw failure
}

export const writing = (
  archives: Archives,
  key: string,
  chunks: AsyncIterable<Uint8Array>,
  options: Partial<WriteOptions> = {},
): Promise<void> => archives.write(key, chunks, { signal: new AbortController().signal, ...options })

export async function listed(archives: Archives): Promise<StoredArchive[]> {
  const found = await Array.fromAsync(archives.list())
  return found.toSorted((a, b) => (a.key < b.key ? -1 : 1))
}

/** Bytes of buffers in use, after a garbage collection. */
export function bufferedBytes(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().arrayBuffers
}
