/**
 * CSV as PostgreSQL's COPY reads and writes it: commas, `"` around and doubled within, a line for each row. Whether a field had quotes
 * is part of what it says: NULL has none, and '' is `""`. An empty line is a row with one field, which is NULL.
 *
 * It is read as bytes, in whatever pieces it comes: what separates fields is never part of another character in UTF-8.
 */
import { isUtf8 } from 'node:buffer'
import { BackupIncompatible } from '../../../tenants/isolation/copy.ts'

export interface CsvField {
  readonly text: string
  readonly isQuoted: boolean
}

const [QUOTE, COMMA, NEWLINE, RETURN] = [0x22, 0x2c, 0x0a, 0x0d]

/** The rows of each piece together; none is held longer than until the next is asked for. */
export async function* csvRows(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<CsvField[][], void, void> {
  const reader = new CsvReader()
  for await (const chunk of chunks) {
    const rows = reader.read(chunk)
    if (rows.length > 0) yield rows
  }
  const last = reader.end()
  if (last) yield [last]
}

/** @param fields as they stand in the line */
export const csvLine = (fields: readonly string[]): string => `${fields.join(',')}\n`

export const csvQuoted = (text: string): string => `"${text.replaceAll('"', '""')}"`

/** With quotes where it cannot do without. */
export const csvName = (name: string): string => (/[",\n\r]|^$|^\\\.$/.test(name) ? csvQuoted(name) : name)

class CsvReader {
  #state: 'bare' | 'quoted' | 'after quote' | 'after return' = 'bare'
  #rows: CsvField[][] = []
  #row: CsvField[] = []
  #isQuoted = false
  /** Of the field that is being read. */
  #parts: Buffer[] = []
  /** How many of them are copies. */
  #owned = 0

  read(chunk: Uint8Array): CsvField[][] {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    let [from, at] = [0, 0]
    while (at < bytes.length) {
      const byte = bytes[at]
      if (this.#state === 'quoted') {
        const quote = bytes.indexOf(QUOTE, at)
        if (quote < 0) break
        this.#take(bytes, from, quote)
        this.#state = 'after quote'
        from = at = quote + 1
        continue
      }
      if (this.#state === 'after return' && byte !== NEWLINE) throw broken('has a carriage return outside of quotes')
      if (this.#state === 'after quote') this.#state = byte === QUOTE ? 'quoted' : 'bare'
      if (this.#state === 'quoted') {
        at++ // of two quotes the second stands for one: it begins what follows
        continue
      }
      if (byte === QUOTE || byte === COMMA || byte === NEWLINE || byte === RETURN) {
        this.#take(bytes, from, at)
        this.#separate(byte)
        from = at + 1
      }
      at++
    }
    this.#take(bytes, from, bytes.length)
    this.#own()
    return this.#taken()
  }

  /** A last line may go without its end. */
  end(): CsvField[] | undefined {
    if (this.#state === 'quoted') throw broken('ends within a value')
    const isStarted = this.#row.length > 0 || this.#parts.length > 0 || this.#isQuoted || this.#state === 'after return'
    if (isStarted) this.#endRow()
    return this.#taken()[0]
  }

  #separate(byte: number): void {
    if (byte === RETURN) this.#state = 'after return'
    else if (byte === COMMA) this.#endField()
    else if (byte === NEWLINE) this.#endRow()
    else {
      this.#state = 'quoted'
      this.#isQuoted = true
    }
  }

  #take(bytes: Buffer, from: number, to: number): void {
    if (to > from) this.#parts.push(bytes.subarray(from, to))
  }

  /** A piece is whoever's it came from, who may use it for the next one. */
  #own(): void {
    for (let at = this.#owned; at < this.#parts.length; at++) this.#parts[at] = Buffer.from(this.#parts[at] as Buffer)
    this.#owned = this.#parts.length
  }

  #endField(): void {
    const bytes = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts)
    if (!isUtf8(bytes)) throw broken('is not UTF-8')
    this.#row.push({ text: bytes.toString(), isQuoted: this.#isQuoted })
    this.#parts = []
    this.#owned = 0
    this.#isQuoted = false
  }

  #endRow(): void {
    this.#endField()
    this.#state = 'bare'
    this.#rows.push(this.#row)
    this.#row = []
  }

  #taken(): CsvField[][] {
    const rows = this.#rows
    this.#rows = []
    return rows
  }
}

const broken = (what: string) => BackupIncompatible(`The data of a table ${what}.`)
