/**
 * Parts of a tar file: a header per entry, its content, zeros up to the next block, and two blocks of zeros at the end.
 */
import { once } from 'node:events'
import { pack } from 'tar-stream'

export const BLOCK_BYTES = 512
export const TAR_END = Buffer.alloc(2 * BLOCK_BYTES)
const ONLY_ITS_OWNER = 0o600
/** The latest time that the library can write into a header: in 2038. */
const LATEST_MS = 0x7fffffff * 1000

export interface EntryHead {
  readonly name: string
  readonly size: number
  readonly mtime: Date
}

/** The header of an entry; several blocks for a long name. */
export async function entryHead({ name, size, mtime }: EntryHead): Promise<Buffer> {
  const packing = pack()
  const modified = new Date(Math.min(Math.max(mtime.getTime(), 0), LATEST_MS))
  // The library writes the complete header synchronously when an entry starts. The content bypasses the library.
  packing.entry({ name, size, mtime: modified, mode: ONLY_ITS_OWNER, type: 'file' })
  await once(packing, 'readable')
  const pieces: Buffer[] = []
  for (let piece = packing.read(); piece; piece = packing.read()) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

/** The zeros after an entry. */
export const padding = (size: number): Buffer => TAR_END.subarray(0, paddingBytes(size))

export const paddingBytes = (size: number): number => (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES
