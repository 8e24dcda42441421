/** The parts of a tar file: of each entry a header, what is in it, and zeros up to the next block; then two blocks of zeros. */
import { once } from 'node:events'
import { pack } from 'tar-stream'

export const BLOCK_BYTES = 512
export const TAR_END = Buffer.alloc(2 * BLOCK_BYTES)
const ONLY_ITS_OWNER = 0o600
/** The latest time that the header has room for, as the library writes it: in 2038. */
const LATEST_MS = 0x7fffffff * 1000

export interface EntryHead {
  readonly name: string
  readonly size: number
  readonly mtime: Date
}

/** What stands before an entry; names that are too long for one block have more than one. */
export async function entryHead({ name, size, mtime }: EntryHead): Promise<Buffer> {
  const packing = pack()
  const modified = new Date(Math.min(Math.max(mtime.getTime(), 0), LATEST_MS))
  // The library writes a header when it begins an entry, at once and whole. Of what follows it is never told.
  packing.entry({ name, size, mtime: modified, mode: ONLY_ITS_OWNER, type: 'file' })
  await once(packing, 'readable')
  const pieces: Buffer[] = []
  for (let piece = packing.read(); piece; piece = packing.read()) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

/** The zeros behind an entry. */
export const padding = (size: number): Buffer => TAR_END.subarray(0, paddingBytes(size))

export const paddingBytes = (size: number): number => (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES
