/**
 * Splits SQL into statements like psql: at semicolons outside of strings, quoted names, comments, brackets and the
 * bodies of functions and triggers. A scope accepts one statement at a time.
 *
 * - A text of any length is read in chunks with arbitrary cuts. Only the current statement is kept.
 * - An unclosed token continues to the end of the text: the server reports the error.
 * - The rows after COPY .. FROM stdin are read as rows if the caller calls `expectRows` before the next statement.
 */
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { Capabilities } from '../isolation/driver.ts'
import { type CopiedRow, CopyData } from './copy-data.ts'
import { type Open, restOfLine, SYNTAXES, type Syntax } from './lexer.ts'

export interface SqlStatement {
  /** With the comments before it, without its semicolon. */
  readonly text: string
  /** First line of `text`, from 1. */
  readonly line: number
  /** Offset in `text` after the comments before the statement. */
  readonly start: number
  /** Its first words, at most four, in lower case. */
  readonly opening: readonly string[]
}

export interface ReadingOptions {
  /** Default `postgres`. */
  readonly engine?: Capabilities['engine']
  /** Maximum length of a statement in characters, including comments before it; default unlimited. */
  readonly longest?: number
}

/** The statements of a complete text. */
export function sqlStatements(text: string): string[] {
  const reader = new StatementReader()
  return [...reader.read(text.replace(/^\ufeff/, '')), ...reader.end()].map(
    (statement) => (statement as SqlStatement).text,
  )
}

/** The line of the character at `offset` in the text of a statement. */
export const lineAt = ({ text, line }: SqlStatement, offset: number): number =>
  line + lineBreaksIn(text.slice(0, offset))

/** A command of psql is a statement up to the end of its line. */
const PSQL_COMMAND = '\\'

/** Read again with the next chunk if a chunk ends with it, as it may start a longer token. */
const MAY_GROW = /^[A-Za-z0-9_\u0080-\uffff$/-]/
const BLANK = /^[ \t\n\r\f\v]/

/** Appended to the text, as a line break ends every cut token, and removed again. */
const END = '\n'

export class StatementReader {
  readonly #syntax: Syntax
  readonly #longest: number
  #draft = new Draft(1)
  #open: Open | undefined
  #rest = ''
  #data: CopyData | undefined

  constructor({ engine = 'postgres', longest = Number.POSITIVE_INFINITY }: ReadingOptions = {}) {
    this.#syntax = SYNTAXES[engine]
    this.#longest = longest
  }

  /** The rows of the statement before follow: each is yielded until their end. */
  expectRows(): void {
    this.#data = new CopyData(this.#draft.line, this.#longest)
  }

  /** Reads the next chunk; must be iterated to its end. Throws `E_INVALID_REQUEST` for a statement that is too long. */
  *read(piece: string): Generator<SqlStatement | CopiedRow> {
    const text = this.#rest + piece
    let from = 0
    let at = 0
    while (at < text.length) {
      if (this.#data) {
        at = yield* this.#data.read(text, at)
        from = at
        if (!this.#data.isEnded) break
        this.#draft = new Draft(this.#data.line)
        this.#data = undefined
        continue
      }
      if (this.#open) {
        const reached = this.#open(text, at)
        at = reached.at
        if (!reached.isClosed) break
        this.#open = undefined
        if (!this.#draft.isCommand) continue
        yield* this.#ended(text.slice(from, at))
        from = at
        continue
      }
      const token = this.#tokenAt(text, at)
      const end = at + token.length
      if (end === text.length && MAY_GROW.test(token)) break
      if (token === ';' && this.#draft.body.isOutside) {
        yield* this.#ended(text.slice(from, at))
        from = end
      } else if (!BLANK.test(token)) {
        this.#see(token, at - from)
      } else if (from === at && this.#draft.length === 0) {
        this.#draft = new Draft(this.#draft.line + lineBreaksIn(token))
        from = end
      }
      at = end
    }
    this.#draft.add(text.slice(from, at))
    this.#rest = text.slice(at)
    if (this.#draft.length + this.#rest.length > this.#longest) throw tooLong(this.#draft.line, this.#longest)
  }

  /** Yields the last statement, which needs no semicolon. */
  *end(): Generator<SqlStatement | CopiedRow> {
    if (!this.#data) {
      yield* this.read(END)
      this.#draft.add(this.#rest)
      this.#rest = ''
      if (this.#open) this.#draft.start ??= 0 // an unclosed comment hides the rest of the text
      yield* this.#ended('', END.length)
    }
    this.#data?.finish()
  }

  #tokenAt(text: string, at: number): string {
    const { token } = this.#syntax
    token.lastIndex = at
    token.test(text) // any character there is a token
    return text.slice(at, token.lastIndex)
  }

  /** @param offset in the text after the draft */
  #see(token: string, offset: number): void {
    this.#open = this.#syntax.opens(token)
    if (token === '--' || token === '/*') return
    if (this.#draft.start === undefined && token === PSQL_COMMAND) {
      this.#draft.isCommand = true
      this.#open = restOfLine
    }
    this.#draft.start ??= this.#draft.length + offset
    if (!this.#open) this.#draft.body.see(token) // SQLite's names in brackets are not brackets
  }

  /** @param surplus number of characters at its end that do not belong to the text */
  *#ended(last: string, surplus = 0): Generator<SqlStatement> {
    const draft = this.#draft
    draft.add(last)
    this.#draft = new Draft(draft.line + draft.lineBreaks)
    if (draft.start !== undefined) yield draft.statement(draft.start, surplus)
  }
}

/** The part of the current statement that was read. */
class Draft {
  readonly line: number
  readonly body = new Body()
  readonly #parts: string[] = []
  length = 0
  lineBreaks = 0
  start: number | undefined
  isCommand = false

  constructor(line: number) {
    this.line = line
  }

  add(part: string): void {
    this.#parts.push(part)
    this.length += part.length
    this.lineBreaks += lineBreaksIn(part)
  }

  statement(start: number, surplus: number): SqlStatement {
    const text = this.#parts.join('')
    return { text: withoutBlanks(text, text.length - surplus), line: this.line, start, opening: this.body.words }
  }
}

/** Number of first words that identify a statement. */
const OPENING = 4
const WORD = /^[a-z_]\w*$/i
const HAS_BLOCKS = /^create (or replace )?(function|procedure)\b|^create (temp |temporary )?trigger\b/

/** Depth of a semicolon in brackets, in the body of a routine (`BEGIN ATOMIC … END`), or of a trigger of SQLite. */
class Body {
  readonly words: string[] = []
  #brackets = 0
  #blocks = 0
  #hasBlocks = false

  get isOutside(): boolean {
    return this.#brackets === 0 && this.#blocks === 0
  }

  see(token: string): void {
    if (token === '(' || token === '[') this.#brackets++
    if ((token === ')' || token === ']') && this.#brackets > 0) this.#brackets--
    const isOpening = this.words.length < OPENING
    if ((!isOpening && !this.#hasBlocks) || !WORD.test(token)) return
    const word = token.toLowerCase()
    if (isOpening) {
      this.words.push(word)
      this.#hasBlocks = HAS_BLOCKS.test(this.words.join(' '))
    }
    if (!this.#hasBlocks || this.#brackets > 0) return
    if (word === 'begin' || (word === 'case' && this.#blocks > 0)) this.#blocks++
    if (word === 'end' && this.#blocks > 0) this.#blocks--
  }
}

/** The text up to `end`, without trailing blanks. */
function withoutBlanks(text: string, end: number): string {
  let last = end
  while (last > 0 && BLANK.test(text[last - 1] ?? '')) last--
  return text.slice(0, last)
}

function lineBreaksIn(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++
  return count
}

const MEBI = 1024 * 1024

const tooLong = (line: number, longest: number) =>
  InvalidRequest(
    `line ${line}: the statement that starts here is longer than ${Math.round(longest / MEBI)} Mi characters; check for an unclosed quote, bracket or comment`,
  )
