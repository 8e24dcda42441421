/**
 * Replaces the schema of a dump by that of the tenant, token by token.
 *
 *   replaced       "public" before a dot; the name in a string that is converted to regclass, regtype or regproc
 *   unchanged      all other strings and comments; they are counted if they contain the schema with a dot
 *
 * The schema of a dump is that of its first object. A dump has objects of one schema.
 */
import { contentOf, type Edit, isSign, isWords, type Token, tokensOf, toLiteral, toName } from './tokens.ts'

/** Types whose values are names of objects. */
const NAMES_OBJECTS = /^reg(class|type|proc|procedure|oper|operator|collation)$/

export const AMBIGUOUS = 'an object with the name of its schema is ambiguous; rename it'

/** Words before the tables of a query, and before its other parts. */
const BEFORE_TABLES = new Set(['from', 'join', 'update', 'into', 'using'])
const BEFORE_OTHERS = new Set(
  'select where on set values returning group having order limit offset fetch window union except intersect then loop'.split(
    ' ',
  ),
)
/** Words before a table. A name after another word is an alias. */
const BEFORE_A_TABLE = new Set([...BEFORE_TABLES, 'lateral', 'only', 'of'])

export class SchemaNames {
  readonly #target: string
  #own: string | undefined
  /** Strings that contain the schema of the dump and were not changed. */
  unchangedTexts = 0

  /** @param target the schema of the tenant's tables */
  constructor(target: string) {
    this.#target = target
  }

  /** The schema of the dump, once it is known. */
  get own(): string | undefined {
    return this.#own
  }

  /** The first call decides. Returns false for another schema than that of the dump. */
  accept(schema: string): boolean {
    if (schema === 'pg_catalog' || schema === 'information_schema') return false
    this.#own ??= schema
    return this.#own === schema
  }

  /** A name with the schema of the tenant. */
  qualified(name: string): string {
    return `${toName(this.#target)}.${toName(name)}`
  }

  /** The target, as an element of a search path; undefined for another schema. */
  inPath(schema: string): string | undefined {
    if (schema === 'pg_catalog' || schema === 'pg_temp') return toName(schema)
    return schema === (this.#own ?? 'public') ? toName(this.#target) : undefined
  }

  /** Edits of a statement or of the body of a function. */
  edits(tokens: readonly Token[]): Edit[] {
    return tokens.flatMap((token, at) => {
      if (this.#own === undefined) return []
      if (token.kind === 'string') return this.#inString(tokens, token, at)
      const isQualifier = token.name === this.#own && isSign(tokens[at + 1], '.') && !isSign(tokens[at - 1], '.')
      return isQualifier ? [{ start: token.start, end: token.end, text: toName(this.#target) }] : []
    })
  }

  /**
   * The alias of a table, or the name of a query in WITH, that is the name of the schema: its columns cannot be
   * distinguished from objects of the schema.
   */
  alias(tokens: readonly Token[]): Token | undefined {
    if (this.#own === undefined) return undefined
    let areTables: boolean[] = []
    for (const [at, token] of tokens.entries()) {
      const { word, depth } = token
      areTables = isSign(token, ';') ? [] : areTables.slice(0, depth + 1)
      const isComparison = word === 'from' && tokens[at - 1]?.word === 'distinct'
      if (BEFORE_OTHERS.has(word)) areTables[depth] = false
      else if (BEFORE_TABLES.has(word) && !isComparison) areTables[depth] = true
      if (token.name !== this.#own || isSign(tokens[at + 1], '.') || isSign(tokens[at - 1], '.')) continue
      if (isQueryName(tokens, at) || (areTables[depth] && isAfterTable(tokens[at - 1]))) return token
    }
    return undefined
  }

  #inString(tokens: readonly Token[], token: Token, at: number): Edit[] {
    const content = contentOf(token)
    const isName = isSign(tokens[at + 1], ':') && isSign(tokens[at + 2], ':') && this.#isType(tokens, at + 3)
    if (content !== undefined && isName) {
      const [first, dot] = tokensOf(content)
      if (!first || first.name !== this.#own || !isSign(dot, '.')) return []
      return [{ start: token.start, end: token.end, text: toLiteral(toName(this.#target) + content.slice(first.end)) }]
    }
    if (token.text.includes(`${this.#own}.`)) this.unchangedTexts++
    return []
  }

  #isType(tokens: readonly Token[], at: number): boolean {
    const isQualified = tokens[at]?.name === 'pg_catalog' && isSign(tokens[at + 1], '.')
    return NAMES_OBJECTS.test(tokens[isQualified ? at + 2 : at]?.name ?? '')
  }
}

const isAfterTable = (token: Token | undefined): boolean =>
  isSign(token, ')') || (token?.name !== undefined && !BEFORE_A_TABLE.has(token.word))

/** `with public as (..)` */
const isQueryName = (tokens: readonly Token[], at: number): boolean =>
  isWords(tokens, at - 1, 'with|recursive') ||
  (isSign(tokens[at - 1], ',') && isWords(tokens, at + 1, 'as') && isSign(tokens[at + 2], '('))
