/**
 * Iterates over the tokens of a complete statement as its server reads them, without blanks and comments.
 *
 * An ambiguous token is a `sign` or `open`, which no rule accepts: dollar quotes, numbers with letters, unclosed
 * tokens.
 */
import type { Capabilities } from '../isolation/driver.ts'
import { SYNTAXES, type Syntax } from './lexer.ts'

export type TokenKind = 'word' | 'name' | 'string' | 'number' | 'sign' | 'open' | 'end'

const QUOTES = new Set(["'", '"', '`'])
const NAME_MARKS = new Set(['"', '`', '['])
const BLANK = /^[ \t\n\r\f\v]/
const WORD = /^[A-Za-z_\u0080-\uffff]/
const NUMBER = /(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.$\u0080-\uffff])/y

/** Folds a word like a server: letters outside of ASCII are unchanged. */
export const lowerCase = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

export class TokenCursor {
  readonly #text: string
  readonly #length: number
  readonly #syntax: Syntax
  /** Kind of the current token. */
  kind: TokenKind = 'end'
  start: number
  end: number

  /** Starts at the first token from `from` on. */
  constructor(text: string, engine: Capabilities['engine'], from = 0) {
    this.#syntax = SYNTAXES[engine]
    this.#length = text.length
    this.#text = QUOTES.has(text.at(-1) ?? '') ? `${text}\n` : text // the following text closes a quote
    this.start = from
    this.end = from
    this.next()
  }

  get text(): string {
    return this.#text.slice(this.start, this.end)
  }

  /** In lower case; empty for every token other than an unquoted word. */
  get word(): string {
    return this.kind === 'word' ? lowerCase(this.text) : ''
  }

  is(kind: TokenKind): boolean {
    return this.kind === kind
  }

  isSign(sign: string): boolean {
    return this.kind === 'sign' && this.end === this.start + 1 && this.#text[this.start] === sign
  }

  /** The name denoted by a word or a quoted name; undefined for every other token. */
  get name(): string | undefined {
    if (this.kind === 'word') return lowerCase(this.text)
    if (this.kind !== 'name') return undefined
    const inner = this.text.slice(1, -1)
    const mark = this.#text[this.end - 1] ?? ''
    return mark === ']' ? inner : inner.replaceAll(mark + mark, mark)
  }

  next(): void {
    do this.start = this.end
    while (this.#isSkipped())
  }

  /** Reads one token; returns true for blanks and comments. */
  #isSkipped(): boolean {
    if (this.start >= this.#length) {
      this.kind = 'end'
      return false
    }
    const { token, opens } = this.#syntax
    token.lastIndex = this.start
    token.test(this.#text)
    this.end = token.lastIndex
    const mark = this.#text.slice(this.start, this.end)
    const open = opens(mark)
    if (open) {
      const { at, isClosed } = open(this.#text, this.end)
      this.end = at
      if (mark === '--') return true // the end of the statement also ends a line
      if (mark === '/*' && isClosed) return true
      this.kind = !isClosed ? 'open' : mark.endsWith("'") ? 'string' : NAME_MARKS.has(mark) ? 'name' : 'sign'
      return false
    }
    if (BLANK.test(mark)) return true
    this.kind = WORD.test(mark) ? 'word' : this.#isNumber() ? 'number' : 'sign'
    return false
  }

  #isNumber(): boolean {
    NUMBER.lastIndex = this.start
    if (!NUMBER.test(this.#text)) return false
    this.end = NUMBER.lastIndex
    return true
  }
}
