/**
 * The statements of an SQL text, as psql tells them apart: at semicolons outside of strings, quoted names, comments, brackets
 * and the bodies of functions and triggers. A scope takes one statement at a time.
 *
 * A text of any length is read in pieces that are cut anywhere. Of what was read only the statement at hand is kept. What is not
 * closed goes on to the end: the server says what is wrong with it. The rows after COPY .. FROM stdin are read as rows when the
 * caller says so before it takes the next statement.
 */
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { Capabilities } from '../isolation/driver.ts'
import { type CopiedRow, CopyData } from './copy-data.ts'
import { type Open, restOfLine, SYNTAXES, type Syntax } from './lexer.ts'

export interface SqlStatement {
  /** With the comments before it, without its semicolon. */
  readonly text: string
  /** The line that `text` begins in, from 1. */
  readonly line: number
  /** Where in `text` the comments before it end. */
  readonly start: number
  /** Its first words, at most four, in lower case. */
  readonly opening: readonly string[]
}

export interface ReadingOptions {
  /** Default `postgres`. */
  readonly engine?: Capabilities['engine']
  /** Characters of a statement at most, comments before it included; default any number. */
  readonly longest?: number
}

/** Those of a whole text. */
export function sqlStatements(text: string): string[] {
  const reader = new StatementReader()
  return [...reader.read(text.replace(/^\ufeff/, '')), ...reader.end()].map(
    (statement) => (statement as SqlStatement).text,
  )
}

/** The line of the character at `offset` in the text of a statement. */
export const lineAt = ({ text, line }: SqlStatement, offset: number): number =>
  line + lineBreaksIn(text.slice(0, offset))

/** A command of psql is a statement to the end of its line. */
const PSQL_COMMAND = '\\'

/** Seen again with the next piece when a piece ends with it, as it may be the beginning of a longer token. */
const MAY_GROW = /^[A-Za-z0-9_\u0080-\uffff$/-]/
const BLANK = /^[ \t\n\r\f\v]/

/** Nothing that is cut off goes on behind a line break. It is taken off again. */
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

  /** What comes next are the rows of the statement before: until their end, each is yielded by itself. */
  expectRows(): void {
    this.#data = new CopyData(this.#draft.line, this.#longest)
  }

  /** Goes on with the next piece; to be read to its end. Throws `E_INVALID_REQUEST` for a statement that is too long. */
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

  /** The last one needs no semicolon. */
  *end(): Generator<SqlStatement | CopiedRow> {
    if (!this.#data) {
      yield* this.read(END)
      this.#draft.add(this.#rest)
      this.#rest = ''
      if (this.#open) this.#draft.start ??= 0 // a comment that is not closed hides all that follows it
      yield* this.#ended('', END.length)
    }
    this.#data?.finish()
  }

  #tokenAt(text: string, at: number): string {
    const { token } = this.#syntax
    token.lastIndex = at
    token.test(text) // whatever stands there is one
    return text.slice(at, token.lastIndex)
  }

  /** @param offset where it stands behind what the draft has. */
  #see(token: string, offset: number): void {
    this.#open = this.#syntax.opens(token)
    if (token === '--' || token === '/*') return
    if (this.#draft.start === undefined && token === PSQL_COMMAND) {
      this.#draft.isCommand = true
      this.#open = restOfLine
    }
    this.#draft.start ??= this.#draft.length + offset
    if (!this.#open) this.#draft.body.see(token) // SQLite's names in brackets are no brackets
  }

  /** @param surplus characters at its end that are not of the text. */
  *#ended(last: string, surplus = 0): Generator<SqlStatement> {
    const draft = this.#draft
    draft.add(last)
    this.#draft = new Draft(draft.line + draft.lineBreaks)
    if (draft.start !== undefined) yield draft.statement(draft.start, surplus)
  }
}

/** What was read of the statement at hand. */
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

/** How many first words tell what a statement is. */
const OPENING = 4
const WORD = /^[a-z_]\w*$/i
const HAS_BLOCKS = /^create (or replace )?(function|procedure)\b|^create (temp |temporary )?trigger\b/

/** How deep a semicolon is in brackets, or in the body of a routine written as `BEGIN ATOMIC … END`, or of SQLite's trigger. */
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

/** The text as far as `end`, without the blanks before that. */
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
    `line ${line}: the statement that begins here is longer than ${Math.round(longest / MEBI)} Mi characters; is a quote, a bracket or a comment left open?`,
  )
