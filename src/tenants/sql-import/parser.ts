/**
 * Parses one statement of an import, token by token. Methods that expect a token throw `E_INVALID_REQUEST` with the
 * line and a hint for any other token.
 */
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { Capabilities } from '../isolation/driver.ts'
import { TokenCursor } from './cursor.ts'
import { lineAt, type SqlStatement } from './splitter.ts'

/** As written; unquoted names in lower case. */
export interface SqlName {
  readonly schema: string | undefined
  readonly name: string
  /** Offsets in the statement's text. */
  readonly start: number
  readonly end: number
}

const LONGEST_SHOWN = 40

export class StatementParser {
  readonly engine: Capabilities['engine']
  readonly #statement: SqlStatement
  #at: TokenCursor

  constructor(statement: SqlStatement, engine: Capabilities['engine']) {
    this.engine = engine
    this.#statement = statement
    this.#at = this.#cursor()
  }

  get at(): TokenCursor {
    return this.#at
  }

  /** The text from the first token on. */
  get text(): string {
    return this.#statement.text.slice(this.#statement.start)
  }

  /** The text between two offsets in the statement. */
  between(start: number, end: number): string {
    return this.#statement.text.slice(start, end)
  }

  restart(): void {
    this.#at = this.#cursor()
  }

  isTaken(sign: string): boolean {
    const isThere = this.#at.isSign(sign)
    if (isThere) this.#at.next()
    return isThere
  }

  isWordTaken(word: string): boolean {
    const isThere = this.#at.word === word
    if (isThere) this.#at.next()
    return isThere
  }

  sign(sign: string, hint: string): void {
    if (!this.isTaken(sign)) this.unexpected(hint)
  }

  word(word: string, hint: string): void {
    if (!this.isWordTaken(word)) this.unexpected(hint)
  }

  end(hint: string): void {
    if (this.#at.kind !== 'end') this.unexpected(hint)
  }

  /** With or without a schema. */
  name(at = this.#at): SqlName {
    const { start } = at
    let schema: string | undefined
    let name = at.name ?? this.unexpected('a name is expected here')
    let { end } = at
    at.next()
    if (at.isSign('.')) {
      at.next()
      schema = name
      name = at.name ?? this.unexpected('a name is expected here')
      end = at.end
      at.next()
    }
    return { schema, name, start, end }
  }

  /** Names in brackets, without schemas. */
  names(hint: string): string[] {
    const names: string[] = []
    this.sign('(', hint)
    do {
      names.push(this.#at.name ?? this.unexpected(hint))
      this.#at.next()
    } while (this.isTaken(','))
    this.sign(')', hint)
    return names
  }

  unexpected(hint: string): never {
    const what = this.#at.kind === 'end' ? 'the statement ends too early' : `${this.shown} is not accepted`
    throw this.rejected(`${what}: ${hint}`)
  }

  /** The current token for messages. */
  get shown(): string {
    const [text = ''] = this.#at.text.split('\n', 1)
    return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)} ..` : text
  }

  rejected(message: string): Error {
    return InvalidRequest(`line ${lineAt(this.#statement, this.#at.start)}: ${message}`)
  }

  #cursor(): TokenCursor {
    return new TokenCursor(this.#statement.text, this.engine, this.#statement.start)
  }
}
