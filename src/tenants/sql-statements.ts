/**
 * The statements of an SQL text, as psql tells them apart: at semicolons outside of strings, quoted names, comments, brackets
 * and the bodies of functions. A scope takes one statement at a time.
 */
const COMMENT = /--[^\n]*|\/\*/y
const STRING = /[eE]?'/y
const DOLLAR_QUOTE = /\$([A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$/y
const WORD = /[A-Za-z_\u0080-\uffff][A-Za-z0-9_$\u0080-\uffff]*/y
const NUMBER = /[0-9][A-Za-z0-9_.]*/y

export function sqlStatements(text: string): string[] {
  const statements: string[] = []
  let from = 0
  let hasContent = false
  const body = new BodyDepth()
  const end = (at: number) => {
    if (hasContent) statements.push(text.slice(from, at).trim())
    hasContent = false
    body.reset()
  }
  for (let at = 0; at < text.length; ) {
    if (text[at] === ';' && body.isOutside) {
      end(at)
      at++
      from = at
      continue
    }
    const token = tokenAt(text, at)
    if (token.isContent) {
      hasContent = true
      body.see(text.slice(at, token.end))
    }
    at = token.end
  }
  end(text.length)
  return statements
}

interface Token {
  readonly end: number
  /** Neither a blank nor a comment. */
  readonly isContent: boolean
}

/** What is not closed goes on to the end: the server says what is wrong with it. */
function tokenAt(text: string, at: number): Token {
  const comment = match(COMMENT, text, at)
  if (comment === '/*') return { end: endOfComment(text, at), isContent: false }
  if (comment !== undefined) return { end: at + comment.length, isContent: false }
  const string = match(STRING, text, at)
  if (string !== undefined) return { end: endOfString(text, at + string.length, string.length > 1), isContent: true }
  if (text[at] === '"') return { end: endOfName(text, at + 1), isContent: true }
  const quote = match(DOLLAR_QUOTE, text, at)
  if (quote !== undefined) return { end: after(text, quote, at + quote.length), isContent: true }
  const word = match(WORD, text, at) ?? match(NUMBER, text, at)
  if (word !== undefined) return { end: at + word.length, isContent: true }
  return { end: at + 1, isContent: /\S/.test(text[at] ?? '') }
}

function match(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0]
}

const after = (text: string, what: string, from: number): number => {
  const found = text.indexOf(what, from)
  return found < 0 ? text.length : found + what.length
}

/** A doubled quote is inside; after `E'` a backslash takes the next character with it. */
function endOfString(text: string, from: number, hasEscapes: boolean): number {
  for (let at = from; at < text.length; at++) {
    if (hasEscapes && text[at] === '\\') at++
    else if (text[at] === "'" && text[at + 1] === "'") at++
    else if (text[at] === "'") return at + 1
  }
  return text.length
}

function endOfName(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    if (text[at] !== '"') continue
    if (text[at + 1] !== '"') return at + 1
    at++
  }
  return text.length
}

/** They nest. */
function endOfComment(text: string, from: number): number {
  let depth = 0
  for (let at = from; at < text.length; ) {
    const two = text.slice(at, at + 2)
    if (two === '/*') depth++
    if (two === '*/') depth--
    at += two === '/*' || two === '*/' ? 2 : 1
    if (depth === 0) return at
  }
  return text.length
}

const FIRST_WORDS = /^create (or replace )?(function|procedure)$/

/** How deep a semicolon is in brackets, or in the body of a function written as `BEGIN ATOMIC … END`. */
class BodyDepth {
  #brackets = 0
  #blocks = 0
  #firstWords: string[] = []

  get isOutside(): boolean {
    return this.#brackets === 0 && this.#blocks === 0
  }

  reset(): void {
    this.#brackets = 0
    this.#blocks = 0
    this.#firstWords = []
  }

  see(token: string): void {
    if (token === '(' || token === '[') this.#brackets++
    if ((token === ')' || token === ']') && this.#brackets > 0) this.#brackets--
    if (!/^[a-z]+$/i.test(token)) return
    const word = token.toLowerCase()
    if (this.#firstWords.length < 4) this.#firstWords.push(word)
    if (!this.#isRoutine || this.#brackets > 0) return
    if (word === 'begin' || (word === 'case' && this.#blocks > 0)) this.#blocks++
    if (word === 'end' && this.#blocks > 0) this.#blocks--
  }

  get #isRoutine(): boolean {
    const words = this.#firstWords
    return FIRST_WORDS.test(words.slice(0, 2).join(' ')) || FIRST_WORDS.test(words.slice(0, 4).join(' '))
  }
}
