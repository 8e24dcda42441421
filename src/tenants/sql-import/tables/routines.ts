/**
 * Checks CREATE FUNCTION and CREATE PROCEDURE, and replaces the schema in their bodies.
 *
 * Accepted: the languages sql and plpgsql, with a body in `$$ .. $$`, in single quotes, in RETURN or BEGIN ATOMIC; of SET
 * clauses, only a search path within the schema of the dump.
 */
import { forbiddenIn } from './forbidden.ts'
import { AMBIGUOUS, type SchemaNames } from './schema-names.ts'
import { contentOf, type Edit, edited, isSign, isWords, type Token, tokensOf, toLiteral } from './tokens.ts'

/** Throws at a token. */
export type Reject = (token: Token | undefined, reason: string) => never

const LANGUAGES = new Set(['sql', 'plpgsql'])
const DOLLAR_TAG = /^\$[^$]*\$/
const SEARCH_PATH_ONLY = 'of the settings of a function, an import accepts search_path with the schema of the dump only'

/** @param tokens of the whole statement */
export function routineEdits(tokens: readonly Token[], names: SchemaNames, reject: Reject): Edit[] {
  const edits: Edit[] = []
  let end = tokens.length
  for (let at = 0; at < end; at++) {
    const token = tokens[at]
    if (!token || token.depth > 0 || isSign(tokens[at - 1], '.')) continue
    if (isWords(tokens, at, 'begin atomic') || token.word === 'return')
      end = at // the rest are tokens of the body
    else if (token.word === 'language') assertLanguage(tokens[at + 1], reject)
    else if (token.word === 'set') edits.push(...searchPath(tokens, at, names, reject))
    else if (token.word === 'as') edits.push(...bodyEdits(tokens, at, names, reject))
  }
  const bodies = new Set(edits.map(({ start }) => start))
  const others = names.edits(tokens.filter((token) => token.kind !== 'dollar string' && !bodies.has(token.start)))
  return [...edits, ...others].sort((one, other) => one.start - other.start)
}

function assertLanguage(token: Token | undefined, reject: Reject): void {
  const name = token?.kind === 'string' ? contentOf(token) : token?.name
  if (!LANGUAGES.has(name ?? '')) reject(token, 'functions may be written in sql and plpgsql only')
}

function bodyEdits(tokens: readonly Token[], at: number, names: SchemaNames, reject: Reject): Edit[] {
  const token = tokens[at + 1]
  if (!token || (token.kind !== 'dollar string' && token.kind !== 'string')) return []
  if (isSign(tokens[at + 2], ',')) reject(tokens[at + 2], 'functions of libraries are not accepted')
  const tag = token.kind === 'dollar string' ? (DOLLAR_TAG.exec(token.text)?.[0] ?? '') : undefined
  const body = tag === undefined ? contentOf(token) : token.text.slice(tag.length, -tag.length)
  if (body === undefined) return reject(token, 'write the body of a function in $$ .. $$')
  const inside = tokensOf(body)
  const open = inside.find(({ kind }) => kind === 'open')
  if (open) reject(token, 'the body of the function contains an unclosed quote or comment')
  const alias = names.alias(inside)
  const found = alias ? { token: alias, reason: AMBIGUOUS } : forbiddenIn(inside)
  if (found) {
    const start = token.start + (tag ?? "'").length + found.token.start
    reject({ ...found.token, start }, `in the body of the function: ${found.reason}`)
  }
  const written = edited(body, names.edits(inside))
  const text = tag === undefined ? toLiteral(written) : `${tag}${written}${tag}`
  return [{ start: token.start, end: token.end, text }]
}

/** `SET search_path TO 'public', 'pg_temp'`, as pg_dump writes it, or with `=`. */
function searchPath(tokens: readonly Token[], at: number, names: SchemaNames, reject: Reject): Edit[] {
  if (tokens[at + 1]?.word !== 'search_path') reject(tokens[at + 1] ?? tokens[at], SEARCH_PATH_ONLY)
  if (tokens[at + 2]?.word !== 'to' && !isSign(tokens[at + 2], '='))
    reject(tokens[at + 2] ?? tokens[at], SEARCH_PATH_ONLY)
  const edits: Edit[] = []
  for (let item = at + 3; ; item += 2) {
    const token = tokens[item]
    if (!token) reject(tokens[at], SEARCH_PATH_ONLY)
    const schema = token.kind === 'string' ? contentOf(token) : token.name
    const text = schema === '' ? "''" : names.inPath(schema ?? '$')
    if (text === undefined) reject(token, SEARCH_PATH_ONLY)
    edits.push({ start: token.start, end: token.end, text })
    if (!isSign(tokens[item + 1], ',')) return edits
  }
}
