/** Reads the entries of a tar file in order, in constant memory, and checks that the file ends where a tar file ends. */
import { createTarDecoder, type ParsedTarEntry } from 'modern-tar'
import { altered, truncated } from './errors.ts'
import { BLOCK_BYTES, paddingBytes, TAR_END } from './tar-writing.ts'

export interface TarEntry {
  readonly name: string
  readonly isFile: boolean
  readonly size: number
  /** To be read to its end before the next entry. */
  readonly content: AsyncIterable<Buffer>
}

export class TarReader {
  readonly #entries: ReadableStreamDefaultReader<ParsedTarEntry>
  readonly #closing = new AbortController()
  /** Resolves when the source is closed. */
  readonly #parsing: Promise<void>
  #bytes = 0
  /** At the end of the bytes read so far. */
  #zeros = 0
  /** Zeros at the end of the last entry: of its content, and its padding. */
  #zerosOfEntry = 0
  #sourceFailure: { readonly error: unknown } | undefined

  constructor(chunks: AsyncIterable<Buffer>) {
    const { readable, writable } = createTarDecoder({ strict: true })
    this.#entries = readable.getReader()
    this.#parsing = ReadableStream.from(this.#counted(chunks))
      .pipeTo(writable, { signal: this.#closing.signal })
      .catch(() => undefined) // `next` and the content throw the failure
  }

  /** Returns undefined at the end of the tar file. Throws `unreadable` instead of the general error for an invalid header. */
  async next(unreadable: (cause: unknown) => Error = invalid): Promise<TarEntry | undefined> {
    const { value: entry } = await this.#entries.read().catch(async (error) => {
      throw await this.#failure(error, unreadable)
    })
    if (!entry) {
      this.#assertEnd()
      return undefined
    }
    const { name, type, size } = entry.header
    return { name, isFile: type === 'file', size, content: this.#content(entry) }
  }

  /** Resolves when the source is closed. The cancellation ends a write that waits for a reader of an entry: `abort` would wait for it. */
  async close(): Promise<void> {
    const cancellation = this.#entries.cancel(new Error('the tar file was closed')).catch(() => undefined)
    this.#closing.abort()
    await cancellation
    await this.#parsing
  }

  async *#content({ header, body }: ParsedTarEntry): AsyncGenerator<Buffer, void, undefined> {
    let zeros = 0
    try {
      for await (const piece of body) {
        zeros = zerosAtEnd(piece, zeros)
        yield Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
      }
    } catch (error) {
      throw await this.#failure(error, invalid)
    }
    this.#zerosOfEntry = zeros + paddingBytes(header.size)
  }

  async *#counted(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
    try {
      for await (const chunk of chunks) {
        this.#bytes += chunk.length
        this.#zeros = zerosAtEnd(chunk, this.#zeros)
        yield chunk
      }
    } catch (error) {
      this.#sourceFailure = { error }
      throw error
    }
  }

  /** Closes the source first: the parser accepts and keeps further bytes after a failure. */
  async #failure(error: unknown, unreadable: (cause: unknown) => Error): Promise<unknown> {
    await this.close()
    if (this.#sourceFailure) return this.#sourceFailure.error
    return error instanceof Error && error.message === 'Tar archive is truncated.'
      ? truncated(error)
      : unreadable(error)
  }

  /** The library accepts zeros after the end. Fewer than a block are part of the header of an empty entry. */
  #assertEnd(): void {
    const others = this.#zeros - this.#zerosOfEntry - TAR_END.length
    if (others >= BLOCK_BYTES || this.#bytes % BLOCK_BYTES !== 0) throw altered('data follows the end of the archive')
  }
}

const invalid = (cause: unknown): Error => altered('it is not a valid tar file', cause)

/** @param before zeros at the end of the bytes before the piece */
function zerosAtEnd(piece: Uint8Array, before: number): number {
  let zeros = 0
  while (zeros < piece.length && piece[piece.length - 1 - zeros] === 0) zeros++
  return zeros === piece.length ? before + zeros : zeros
}
