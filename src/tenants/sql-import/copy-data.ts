/**
 * The rows that follow COPY .. FROM stdin, in the text format of `pg_dump`: a line for each, its values between tabs, `\.` at the
 * end. What a server would read in several ways (a value that spans lines, bytes by their number) is refused with its line.
 */
import { InvalidRequest } from '../../kernel/base/errors.ts'

export interface CopiedRow {
  /** As it stands in the file, without its line break. */
  readonly row: string
  readonly line: number
}

const END = '\\.'
const BLANK = /^[ \t\r\f\v]*$/
const ESCAPE = /\\([\s\S]?)/g
const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }
const BY_NUMBER = /[0-7x]/

export class CopyData {
  /** The one that is read next. */
  line: number
  isEnded = false
  readonly #longest: number
  /** Of a line that a piece has cut. */
  #parts: string[] = []
  #length = 0
  #isStatementsLine = true

  /** @param line that the statement ends in. @param longest characters of a row at most. */
  constructor(line: number, longest: number) {
    this.line = line
    this.#longest = longest
  }

  /** Yields the rows of `text` from `from` on; returns where they end, or where the text does. */
  *read(text: string, from: number): Generator<CopiedRow, number> {
    let at = from
    for (let end = text.indexOf('\n', at); end >= 0; end = text.indexOf('\n', at)) {
      const row = this.#whole(text.slice(at, end))
      at = end + 1
      const line = this.line++
      if (this.#isStatementsLine) {
        if (!BLANK.test(row))
          throw rejected(line, 'the rows of COPY begin on the line after it; take out what follows its semicolon')
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
  if (row.includes('\r')) throw rejected(line, 'a carriage return is written \\r in the rows of COPY')
  const values = row.split('\t')
  return row.includes('\\') ? values.map((value) => unescaped(value, line)) : values
}

function unescaped(value: string, line: number): string | null {
  if (value === '\\N') return null
  return value.replace(ESCAPE, (_, character: string) => {
    if (character === '') throw rejected(line, 'a tab or a line break in a value is written \\t or \\n')
    if (character === '.' || BY_NUMBER.test(character)) {
      throw rejected(line, `\\${character} is not accepted in the rows of COPY: write the character itself`)
    }
    return ESCAPED[character] ?? character
  })
}

const rejected = (line: number, message: string) => InvalidRequest(`line ${line}: ${message}`)
