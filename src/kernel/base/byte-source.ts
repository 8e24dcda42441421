/**
 * Reads a stream by numbers of bytes, regardless of its chunks. Results are views of the chunks; only `exactly` and `peek` copy.
 * It has one reader. The stream is closed at its end, at a failure, and by `close`.
 */
const NOTHING = Buffer.alloc(0)

export class ByteSource {
  readonly #chunks: AsyncIterator<Uint8Array>
  #ahead: Buffer = NOTHING
  #hasEnded = false
  #isClosed = false

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]()
  }

  /** Whether there is another byte. */
  async hasMore(): Promise<boolean> {
    if (this.#isClosed) throw new Error('bytes were requested after the source was closed')
    while (this.#ahead.length === 0 && !this.#hasEnded) this.#ahead = await this.#next()
    return this.#ahead.length > 0
  }

  /** The next bytes of one chunk, at most `most`; undefined at the end. */
  async take(most: number): Promise<Buffer | undefined> {
    if (!(await this.hasMore())) return undefined
    const piece = this.#ahead.subarray(0, most)
    this.#ahead = this.#ahead.subarray(piece.length)
    return piece
  }

  /** The next `count` bytes in pieces; fewer only at the end. */
  async pieces(count: number): Promise<Buffer[]> {
    const pieces: Buffer[] = []
    for (let missing = count; missing > 0; ) {
      const piece = await this.take(missing)
      if (!piece) break
      pieces.push(piece)
      missing -= piece.length
    }
    return pieces
  }

  /** The next `count` bytes; fewer only at the end. */
  async exactly(count: number): Promise<Buffer> {
    return joined(await this.pieces(count))
  }

  /** The result of `exactly`, which the next read returns again. */
  async peek(count: number): Promise<Buffer> {
    const pieces = await this.pieces(count)
    this.#ahead = joined(this.#ahead.length > 0 ? [...pieces, this.#ahead] : pieces)
    return this.#ahead.subarray(0, count)
  }

  /** All further bytes. */
  async *rest(): AsyncGenerator<Buffer, void, undefined> {
    try {
      for (let piece = await this.take(Infinity); piece; piece = await this.take(Infinity)) yield piece
    } finally {
      await this.close()
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#ahead = NOTHING
    if (!this.#hasEnded) await this.#chunks.return?.()
  }

  async #next(): Promise<Buffer> {
    // A generator that throws has ended: neither `next` nor `return` is called again.
    this.#hasEnded = true
    const { done, value } = await this.#chunks.next()
    if (done) return NOTHING
    this.#hasEnded = false
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  }
}

/** One piece is not copied. */
export const joined = (pieces: readonly Buffer[]): Buffer => {
  const [first = NOTHING, ...others] = pieces
  return others.length === 0 ? first : Buffer.concat(pieces)
}
