/**
 * Reads the rows after COPY .. FROM stdin in the text format of `pg_dump`: one line per row, values separated by tabs,
 * `\.` at the end. Ambiguous input (a value that spans lines, bytes by their number) is rejected with its line.
 */
import { InvalidRequest } from '../../kernel/base/errors.ts'

export interface CopiedRow {
  /** The line in the file without its line break. */
  readonly row: string
  readonly line: number
}

const END = '\\.'
const BLANK = /^[ \t\r\f\v]*$/
const ESCAPE = /\\([\s\S]?)/g
const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }
const BY_NUMBER = /[0-7x]/

export class CopyData {
  /** The next line to be read. */
  line: number
  isEnded = false
  readonly #longest: number
  /** Parts of a line that continues in the next chunk. */
  #parts: string[] = []
  #length = 0
  #isStatementsLine = true

  /** @param line last line of the statement @param longest maximum length of a row in characters */
  constructor(line: number, longest: number) {
    this.line = line
    this.#longest = longest
  }

  /** Yields the rows of `text` from `from` on; returns the offset after them, or the length of the text. */
  *read(text: string, from: number): Generator<CopiedRow, number> {
    let at = from
    for (let end = text.indexOf('\n', at); end >= 0; end = text.indexOf('\n', at)) {
      const row = this.#whole(text.slice(at, end))
      at = end + 1
      const line = this.line++
      if (this.#isStatementsLine) {
        if (!BLANK.test(row))
          throw rejected(line, 'the rows of COPY start on the line after it; remove the text after its semicolon')
        this.#isStatementsLine = false
      } else if (row === END) {
        this.isEnded = true
        return at
      } else yield { row, line }
    }
    this.#parts.push(text.slice(at))
    this.#length += text.length - at
    if (this.#length > this.#longest) throw rejected(this.line, 'this row of COPY is too long')
    return text.length
  }

  /** At the end of the file, which may lack the last line break. */
  finish(): void {
    if (this.#whole('') === END) return
    throw rejected(this.line, `the file ends within the rows of COPY: a line with ${END} is missing`)
  }

  #whole(end: string): string {
    const line = this.#parts.length === 0 ? end : this.#parts.join('') + end
    this.#parts = []
    this.#length = 0
    return line.endsWith('\r') ? line.slice(0, -1) : line
  }
}

/** The values of a row: text, or null. */
export function valuesOf({ row, line }: CopiedRow): (string | null)[] {
  if (row.includes('\r')) throw rejected(line, 'a carriage return must be written as \\r in the rows of COPY')
  const values = row.split('\t')
  return row.includes('\\') ? values.map((value) => unescaped(value, line)) : values
}

function unescaped(value: string, line: number): string | null {
  if (value === '\\N') return null
  return value.replace(ESCAPE, (_, character: string) => {
    if (character === '') throw rejected(line, 'a tab or a line break in a value must be written as \\t or \\n')
    if (character === '.' || BY_NUMBER.test(character)) {
      throw rejected(line, `\\${character} is not accepted in the rows of COPY: write the character itself`)
    }
    return ESCAPED[character] ?? character
  })
}

const rejected = (line: number, message: string) => InvalidRequest(`line ${line}: ${message}`)
