/**
 * Parts of a tar file: a header per entry, its content, zeros up to the next block, and two blocks of zeros at the end.
 */
import { createTarPacker } from 'modern-tar'

export const BLOCK_BYTES = 512
export const TAR_END = Buffer.alloc(2 * BLOCK_BYTES)
const ONLY_ITS_OWNER = 0o600
/** The latest time that fits the eleven octal digits of a header: in 2242. */
const LATEST_MS = (8 ** 11 - 1) * 1000

export interface EntryHead {
  readonly name: string
  readonly size: number
  readonly mtime: Date
}

/** The header of an entry; several blocks for a long name. */
export async function entryHead({ name, size, mtime }: EntryHead): Promise<Buffer> {
  const { readable, controller } = createTarPacker()
  const modified = new Date(Math.min(Math.max(mtime.getTime(), 0), LATEST_MS))
  // The library queues the complete header synchronously when an entry starts. The content bypasses the library.
  controller.add({ name, size, mtime: modified, mode: ONLY_ITS_OWNER, type: 'file' })
  const reader = readable.getReader()
  const pieces: Uint8Array[] = []
  for (;;) {
    const queued = await Promise.race([reader.read(), undefined])
    if (!queued?.value) return Buffer.concat(pieces)
    pieces.push(queued.value)
  }
}

/** The zeros after an entry. */
export const padding = (size: number): Buffer => TAR_END.subarray(0, paddingBytes(size))

export const paddingBytes = (size: number): number => (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES
