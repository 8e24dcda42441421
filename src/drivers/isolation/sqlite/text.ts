/**
 * What has to be known of a text before SQLite has it: its parameters, what kind of statement it is, and whether something
 * follows it, which SQLite would ignore in silence.
 */
import { LRUCache } from 'lru-cache'
import { NO_SUCH_PARAMETER, SqliteError, SYNTAX_ERROR } from './errors.ts'

export interface SqliteText {
  /** As PostgreSQL names it: `SELECT`, `INSERT` ..; empty for a text without a statement. */
  readonly command: string
  /** Numbers of `$1` and `?1`; or how many plain `?` there are. */
  readonly parameters: ReadonlyMap<string, number> | number
}

/** SQLite's own tokens; what is not closed goes on to the end of the text. */
const TOKEN = new RegExp(
  [
    /(?<blank>[ \t\n\f\r]+|--[^\n]*|\/\*(?:[\s\S]*?\*\/|[\s\S]+$))/u,
    /(?<quoted>'(?:[^']+|'')*(?:'|$)|"(?:[^"]+|"")*(?:"|$)|`(?:[^`]+|``)*(?:`|$)|\[[^\]]*(?:\]|$))/u,
    /(?<word>[A-Za-z_\u{80}-\u{10ffff}][\w$\u{80}-\u{10ffff}]*)/u,
    /(?<number>\d[\w.]*)/u,
    /(?<parameter>\?\d*|[$:@#][\w$:\u{80}-\u{10ffff}]*)/u,
    /[\s\S]/u,
  ]
    .map(({ source }) => source)
    .join('|'),
  'gu',
)

const known = new LRUCache<string, SqliteText>({ max: 2_000 })
/** Longer texts are rare, or made by hand each time, and would be kept for nothing. */
const LONGEST_KEPT_TEXT = 4_096

/** Throws on parameters that no list of values can fill. */
export function textOf(text: string): SqliteText {
  const kept = known.get(text)
  if (kept) return kept
  if (text.includes('\0')) throw new SqliteError(SYNTAX_ERROR, 'a statement must not contain a NUL character')
  const tokens = [...text.matchAll(TOKEN)]
  const read = {
    command: commandOf(tokens),
    parameters: parametersOf(tokens.flatMap(({ groups }) => groups?.parameter ?? [])),
  }
  if (text.length <= LONGEST_KEPT_TEXT) known.set(text, read)
  return read
}

/** Whether there is more than blanks, comments and semicolons. */
export const hasStatement = (text: string): boolean =>
  [...text.matchAll(TOKEN)].some(({ 0: token, groups }) => groups?.blank === undefined && token !== ';')

function parametersOf(tokens: readonly string[]): ReadonlyMap<string, number> | number {
  const numbered = new Map<string, number>()
  let plain = 0
  for (const token of tokens) {
    const [, number] = /^[$?]([1-9]\d{0,4})$/.exec(token) ?? []
    if (number) numbered.set(token, Number(number))
    else if (token === '?') plain++
    else
      throw new SqliteError(
        SYNTAX_ERROR,
        `"${token}" is not a parameter that can be filled: write $1 or ?${cast(token)}`,
      )
  }
  if (plain > 0 && numbered.size > 0) {
    throw new SqliteError(NO_SUCH_PARAMETER, 'a statement has either numbered parameters ($1) or plain ones (?)')
  }
  return plain > 0 ? plain : numbered
}

const cast = (token: string): string => (token.includes('::') ? ', and cast($1 as type) for a cast' : '')

const ANSWERED_AS: Readonly<Record<string, string>> = { REPLACE: 'INSERT', VALUES: 'SELECT' }
const AFTER_WITH = new Set(['SELECT', 'VALUES', 'INSERT', 'UPDATE', 'DELETE'])

function commandOf(tokens: readonly RegExpExecArray[]): string {
  let depth = 0
  const words: string[] = []
  for (const { 0: token, groups } of tokens) {
    if (token === '(') depth++
    if (token === ')') depth--
    if (groups?.word && depth === 0) words.push(groups.word.toUpperCase())
  }
  const [first = ''] = words
  const command = first === 'WITH' ? (words.find((word, at) => isMain(word, words[at + 1])) ?? first) : first
  return ANSWERED_AS[command] ?? command
}

/** REPLACE may also be the name of what stands after WITH. */
const isMain = (word: string, next: string | undefined): boolean =>
  AFTER_WITH.has(word) || (word === 'REPLACE' && next === 'INTO')
