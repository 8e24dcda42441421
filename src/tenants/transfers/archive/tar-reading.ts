/** Reads the entries of a tar file in order, in constant memory, and checks that the file ends where a tar file ends. */
import { pipeline } from 'node:stream/promises'
import { type Extract, extract } from 'tar-stream'
import { altered, truncated } from './errors.ts'
import { BLOCK_BYTES, paddingBytes, TAR_END } from './tar-writing.ts'

export interface TarEntry {
  readonly name: string
  readonly isFile: boolean
  readonly size: number
  /** To be read to its end before the next entry. */
  readonly content: AsyncIterable<Buffer>
}

/** The library does not export the type. */
type Source = Extract extends AsyncIterable<infer Entry> ? Entry : never

export class TarReader {
  readonly #entries: AsyncIterator<Source, void>
  /** Resolves with the failure, of the source or of the library. */
  readonly #extracting: Promise<unknown>
  #bytes = 0
  #lastBytes: Buffer = Buffer.alloc(0)
  #endOfEntries = 0
  #sourceFailure: { readonly error: unknown } | undefined

  constructor(chunks: AsyncIterable<Buffer>) {
    const extracting = extract()
    this.#entries = extracting[Symbol.asyncIterator]()
    this.#extracting = pipeline(this.#counted(chunks), extracting).catch((error) => error)
  }

  /** Returns undefined at the end of the tar file. Throws `unreadable` instead of the general error for an invalid header. */
  async next(unreadable: (cause: unknown) => Error = invalid): Promise<TarEntry | undefined> {
    const { value: entry } = await this.#entries.next().catch(async () => {
      throw await this.#failure(unreadable)
    })
    if (!entry) {
      this.#assertEnd()
      return undefined
    }
    const { name, type, size } = entry.header
    this.#endOfEntries = entry.offset + BLOCK_BYTES + size + paddingBytes(size)
    return { name, isFile: type === 'file', size, content: this.#content(entry) }
  }

  /** Resolves when the source is closed. */
  async close(): Promise<void> {
    await this.#entries.return?.()
    await this.#extracting
  }

  async *#content(entry: Source): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* entry as AsyncIterable<unknown> as AsyncIterable<Buffer>
    } catch {
      throw await this.#failure(invalid)
    }
  }

  async *#counted(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
    try {
      for await (const chunk of chunks) {
        this.#bytes += chunk.length
        const last = chunk.length < TAR_END.length ? Buffer.concat([this.#lastBytes, chunk]) : chunk
        this.#lastBytes = last.subarray(-TAR_END.length)
        yield chunk
      }
    } catch (error) {
      this.#sourceFailure = { error }
      throw error
    }
  }

  /** An entry of a destroyed stream throws a general error, not the reason. */
  async #failure(unreadable: (cause: unknown) => Error): Promise<unknown> {
    const error = await this.#extracting
    if (this.#sourceFailure) return this.#sourceFailure.error
    return error instanceof Error && error.message === 'Unexpected end of data' ? truncated(error) : unreadable(error)
  }

  /** The library accepts a file that has no end or has blocks of zeros after it. */
  #assertEnd(): void {
    const end = this.#endOfEntries + TAR_END.length
    if (this.#bytes > end) throw altered('data follows the end of the archive')
    if (this.#bytes < end || !this.#lastBytes.equals(TAR_END)) throw truncated()
  }
}

const invalid = (cause: unknown): Error => altered('it is not a valid tar file', cause)
