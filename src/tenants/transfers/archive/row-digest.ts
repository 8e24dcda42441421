/**
 * Order-independent digest of the rows of a table: the sum of their hashes. A row ends at a line end outside of quotes.
 * A quote inside of quotes is doubled, so counting quotes is sufficient.
 */
import { hash } from 'node:crypto'

const QUOTE = 34
const NEWLINE = 10
const MODULUS = 1n << 128n
const HEX_DIGITS = 32

export class RowDigest {
  #sum = 0n
  #header = ''
  #isHeader = true
  #isQuoted = false
  #started: Buffer[] = []

  /** Equal for two tables with the same columns and rows. */
  get value(): string {
    return `${this.#header} ${this.#sum.toString(16)}`
  }

  async *watch(csv: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of csv) {
      this.#take(chunk)
      yield chunk
    }
    if (this.#started.length > 0) this.#end(Buffer.alloc(0))
  }

  #take(chunk: Buffer): void {
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (byte === QUOTE) this.#isQuoted = !this.#isQuoted
      if (byte !== NEWLINE || this.#isQuoted) continue
      this.#end(chunk.subarray(from, at + 1))
      from = at + 1
    }
    if (from < chunk.length) this.#started.push(Buffer.from(chunk.subarray(from)))
  }

  #end(rest: Buffer): void {
    const row = this.#started.length === 0 ? rest : Buffer.concat([...this.#started, rest])
    this.#started = []
    const digest = hash('sha256', row, 'hex')
    if (this.#isHeader) this.#header = digest
    else this.#sum = (this.#sum + BigInt(`0x${digest.slice(0, HEX_DIGITS)}`)) % MODULUS
    this.#isHeader = false
  }
}
