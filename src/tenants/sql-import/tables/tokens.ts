/** Reads the tokens of a statement that defines objects, and of the body of a function. */
import { TokenCursor, type TokenKind } from '../cursor.ts'

export interface Token {
  readonly kind: TokenKind | 'dollar string'
  /** As written. */
  readonly text: string
  /** An unquoted word in lower case; empty for other tokens. */
  readonly word: string
  /** The name denoted by a word or a quoted name. */
  readonly name: string | undefined
  /** Offsets in the text. */
  readonly start: number
  readonly end: number
  /** Number of open brackets before the token. */
  readonly depth: number
}

export function tokensOf(text: string, from = 0): Token[] {
  const tokens: Token[] = []
  let depth = 0
  for (const at = new TokenCursor(text, 'postgres', from); !at.is('end'); at.next()) {
    const isClosing = at.isSign(')')
    if (isClosing && depth > 0) depth--
    const isDollarString = at.is('sign') && at.text.length > 1
    tokens.push({
      kind: isDollarString ? 'dollar string' : at.kind,
      text: at.text,
      word: at.word,
      name: at.name,
      start: at.start,
      end: at.end,
      depth,
    })
    if (at.isSign('(')) depth++
  }
  return tokens
}

export const isSign = (token: Token | undefined, sign: string): boolean => token?.kind === 'sign' && token.text === sign

/** Whether the words at the index are these; each may have alternatives: `or|and`. */
export const isWords = (tokens: readonly Token[], at: number, words: string): boolean =>
  words.split(' ').every((word, index) => {
    const found = tokens[at + index]?.word
    return found !== undefined && found !== '' && word.split('|').includes(found)
  })

/** Index after the name of an object: `if exists only public.notes`. */
export function nameEnd(tokens: readonly Token[], from: number): number {
  let at = from
  if (isWords(tokens, at, 'if exists')) at += 2
  if (tokens[at]?.word === 'only') at++
  at++
  while (isSign(tokens[at], '.')) at += 2
  return at
}

/** Words of the beginning of a statement, in upper case, for messages. */
export function shownOpening(tokens: readonly Token[], count: number): string {
  const words: string[] = []
  for (const { word } of tokens.slice(0, count)) {
    if (word === '') break
    words.push(word.toUpperCase())
  }
  return words.join(' ')
}

export interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** @param edits in the order of the text */
export function edited(text: string, edits: readonly Edit[]): string {
  const parts: string[] = []
  let at = 0
  for (const edit of edits) {
    parts.push(text.slice(at, edit.start), edit.text)
    at = edit.end
  }
  return [...parts, text.slice(at)].join('')
}

/** A string of SQL; needs `standard_conforming_strings`. */
export const toLiteral = (value: string): string => `'${value.replaceAll("'", "''")}'`

export const toName = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The content of a string in single quotes; undefined for `E'..'`. */
export const contentOf = ({ text }: Token): string | undefined =>
  text.startsWith("'") ? text.slice(1, -1).replaceAll("''", "'") : undefined
