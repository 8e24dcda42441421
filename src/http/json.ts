/**
 * Parses the JSON of a request body. In addition to invalid JSON, it rejects values that two readers would read differently or that cannot
 * be stored: a repeated key, a number that is too large, a whole number beyond 2^53, NUL, an unpaired surrogate.
 *
 * - One pass over the text checks all of that. `JSON.parse` then checks the grammar, without a reviver: a reviver costs seconds per mebibyte.
 * - Nesting and the number of object members are limited. An array element costs no more than its bytes, a member costs a property.
 */
import { isValidPostgresText } from '../kernel/database/postgres-text.ts'
import { InvalidJson } from './problem.ts'

const MAX_DEPTH = 64
const MAX_MEMBERS = 10_000
/** A number that is no longer, and has no exponent, is read exactly. */
const EXACT_CHARACTERS = 15

const codeOf = (character: string): number => character.charCodeAt(0)
const QUOTE = codeOf('"')
const BACKSLASH = codeOf('\\')
const COLON = codeOf(':')
const OPEN_OBJECT = codeOf('{')
const CLOSE_OBJECT = codeOf('}')
const OPEN_ARRAY = codeOf('[')
const CLOSE_ARRAY = codeOf(']')
const ZERO = codeOf('0')
const NINE = codeOf('9')
const MINUS = codeOf('-')
const PLUS = codeOf('+')
const POINT = codeOf('.')
const LOWER_E = codeOf('e')
const UPPER_E = codeOf('E')
const LOWER_U = codeOf('u')

/** @returns any JSON value. Throws `E_INVALID_JSON` */
export function parseJson(text: string): unknown {
  assertAcceptable(text)
  return parsed(text)
}

function assertAcceptable(text: string): void {
  if (!isValidPostgresText(text)) throw unstorable()
  /** The names of each open object, from the outside in; undefined for an array, and for an object without a member so far. */
  const names: (Set<string> | undefined)[] = []
  let members = 0
  let [start, end] = [0, 0] // of the last string
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      start = at
      end = at = endOfString(text, at)
    } else if (code === COLON) {
      if (++members > MAX_MEMBERS) throw InvalidJson(`The body has more than ${MAX_MEMBERS} object members.`)
      addName(names, text.slice(start, end + 1))
    } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      if (names.push(undefined) > MAX_DEPTH) throw InvalidJson(`The body nests deeper than ${MAX_DEPTH} levels.`)
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      names.pop()
    } else if (isDigit(code) || code === MINUS) {
      at = endOfNumber(text, at)
    }
  }
}

/** The position of the closing quote, or of the end of the text. */
function endOfString(text: string, start: number): number {
  let hasUnicodeEscape = false
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === BACKSLASH) {
      at++
      hasUnicodeEscape ||= text.charCodeAt(at) === LOWER_U
    } else if (code === QUOTE) {
      if (hasUnicodeEscape && !isValidPostgresText(parsed(text.slice(start, at + 1)) as string)) throw unstorable()
      return at
    }
  }
  return text.length
}

/** The position of the last character of the number. */
function endOfNumber(text: string, start: number): number {
  let at = start
  let hasExponent = false
  for (;;) {
    const code = text.charCodeAt(at + 1)
    if (code === LOWER_E || code === UPPER_E) hasExponent = true
    else if (!isDigit(code) && code !== POINT && code !== PLUS && code !== MINUS) break
    at++
  }
  if (hasExponent || at - start >= EXACT_CHARACTERS) assertNumber(text.slice(start, at + 1))
  return at
}

function assertNumber(written: string): void {
  const number = Number(written)
  if (Math.abs(number) === Number.POSITIVE_INFINITY) throw InvalidJson('A number is too large.')
  // The digits of a number with a point or an exponent may be rounded.
  if (/^-?\d+$/.test(written) && !Number.isSafeInteger(number))
    throw InvalidJson('A whole number is beyond 2^53 and would lose precision. Send it as a string.')
}

/** Adds the name of a member to the innermost object. */
function addName(names: (Set<string> | undefined)[], quoted: string): void {
  const name = quoted.includes('\\') ? (parsed(quoted) as string) : quoted.slice(1, -1)
  const innermost = names.at(-1) ?? new Set()
  if (innermost.has(name)) throw InvalidJson(`The key ${JSON.stringify(name)} occurs twice in one object.`)
  names[names.length - 1] = innermost.add(name)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw InvalidJson('The body is not valid JSON.', { cause })
  }
}

const unstorable = () => InvalidJson('A string contains NUL or an unpaired surrogate.')

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE
