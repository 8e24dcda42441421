/**
 * Tokenizes SQL as far as required for the ends of statements: strings, quoted names and comments. An opening token is
 * distinguished from others, and its content is followed through any number of chunks.
 */
import type { Capabilities } from '../isolation/driver.ts'

export interface Syntax {
  /** One token from `lastIndex` on: blanks, a word, a number, an opening mark, or another sign. */
  readonly token: RegExp
  /** The follower of an opening token; undefined for a complete token. */
  readonly opens: (token: string) => Open | undefined
}

/** Follows an open token through `text`, from `at` on. */
export type Open = (text: string, at: number) => Reached

export interface Reached {
  /** The rest from here on depends on the next chunk, unless the token is closed. */
  readonly at: number
  readonly isClosed: boolean
}

const closed = (at: number): Reached => ({ at, isClosed: true })
const open = (at: number): Reached => ({ at, isClosed: false })

const BLANKS = /[ \t\n\r\f\v]+/
const COMMENT = /--|\/\*/
const WORD = /[A-Za-z_\u0080-\uffff][A-Za-z0-9_$\u0080-\uffff]*/
const NUMBER = /[0-9][A-Za-z0-9_.]*/
const ANY = /[\s\S]/

/** A tag without its second sign may continue in the next chunk. */
const DOLLAR_QUOTE = /\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?(?:\$|$)/

const oneOf = (...tokens: readonly RegExp[]): RegExp => new RegExp(tokens.map(({ source }) => source).join('|'), 'y')

/** Ends before the match. */
const before =
  (end: RegExp): Open =>
  (text, at) => {
    const found = firstFrom(end, text, at)
    return found < 0 ? open(text.length) : closed(found)
  }

const upTo =
  (mark: string): Open =>
  (text, at) => {
    const found = text.indexOf(mark, at)
    return found < 0 ? open(Math.max(at, text.length - mark.length + 1)) : closed(found + mark.length)
  }

/** A doubled mark is part of the content. */
const quoted =
  (mark: string): Open =>
  (text, from) => {
    for (let at = from; ; at += 2) {
      at = text.indexOf(mark, at)
      if (at < 0) return open(text.length)
      if (at + 1 === text.length) return open(at)
      if (text[at + 1] !== mark) return closed(at + 1)
    }
  }

const QUOTE_OR_ESCAPE = /['\\]/g

/** A string after `E`: a backslash escapes the next character. */
const escaped: Open = (text, from) => {
  for (let at = from; ; at += 2) {
    at = firstFrom(QUOTE_OR_ESCAPE, text, at)
    if (at < 0) return open(text.length)
    if (at + 1 === text.length) return open(at)
    if (text[at] === "'" && text[at + 1] !== "'") return closed(at + 1)
  }
}

const COMMENT_MARK = /\/\*|\*\//g

function nestingComment(): Open {
  let depth = 1
  return (text, from) => {
    let end = from
    for (let at = firstFrom(COMMENT_MARK, text, from); at >= 0; at = firstFrom(COMMENT_MARK, text, end)) {
      depth += text[at] === '/' ? 1 : -1
      end = at + 2
      if (depth === 0) return closed(end)
    }
    const isHalfMark = end < text.length && (text.endsWith('/') || text.endsWith('*'))
    return open(isHalfMark ? text.length - 1 : text.length)
  }
}

function firstFrom(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.exec(text)?.index ?? -1
}

/** The rest of a line. */
export const restOfLine = before(/\n/g)

const STRING = quoted("'")
const NAME = quoted('"')
const LINE_COMMENT = before(/[\n\r]/g)

const SQLITE_OPENS: Readonly<Record<string, Open>> = {
  "'": STRING,
  '"': NAME,
  '`': quoted('`'),
  '[': upTo(']'),
  '--': restOfLine,
  '/*': upTo('*/'),
}

export const SYNTAXES: Readonly<Record<Capabilities['engine'], Syntax>> = {
  postgres: {
    token: oneOf(BLANKS, COMMENT, /[eE]?'/, /"/, DOLLAR_QUOTE, WORD, NUMBER, ANY),
    opens(token) {
      if (token === "'") return STRING
      if (token === '"') return NAME
      if (token === '--') return LINE_COMMENT
      if (token === '/*') return nestingComment()
      if (token.endsWith("'")) return escaped
      return token.length > 1 && token.startsWith('$') ? upTo(token) : undefined
    },
  },
  sqlite: {
    token: oneOf(BLANKS, COMMENT, /['"`[]/, WORD, NUMBER, ANY),
    opens: (token) => SQLITE_OPENS[token],
  },
}
