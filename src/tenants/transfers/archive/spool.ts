/**
 * A buffer that is written completely before it is read: a few bytes in memory, more in an unlinked file, which
 * disappears with the process.
 */
import { randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const IN_MEMORY_BYTES = 4 * 1024 * 1024
const PIECE_BYTES = 256 * 1024
const ONLY_ITS_OWNER = 0o600

export class Spool {
  #pieces: Buffer[] = []
  #bytes = 0
  #file: FileHandle | undefined

  async add(piece: Buffer): Promise<void> {
    this.#pieces.push(piece)
    this.#bytes += piece.length
    if (this.#bytes <= IN_MEMORY_BYTES) return
    this.#file ??= await namelessFile()
    await this.#file.writeFile(this.#pieces)
    this.#pieces = []
  }

  /** All bytes from the start. */
  async *read(): AsyncGenerator<Buffer, void, undefined> {
    const file = this.#file
    if (!file) return yield* this.#pieces
    for (let at = 0; at < this.#bytes; ) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(PIECE_BYTES), 0, PIECE_BYTES, at)
      if (bytesRead === 0) throw new Error('The temporary file is shorter than the bytes written to it.')
      at += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }

  async close(): Promise<void> {
    await this.#file?.close()
    this.#pieces = []
  }
}

async function namelessFile(): Promise<FileHandle> {
  const path = join(tmpdir(), `tenantry-spool-${process.pid}-${randomUUID()}`)
  const file = await open(path, 'wx+', ONLY_ITS_OWNER)
  try {
    await unlink(path)
  } catch (error) {
    await file.close()
    throw error
  }
  return file
}
