/**
 * JSON as a request may bring it. Beside what `JSON.parse` refuses, this refuses what would be read in two ways or kept in
 * none: a key twice in one object, nesting without end, a number beyond any, a whole number with more digits than are kept, NUL, half a
 * character.
 */
import { isStorable } from '../kernel/storable.ts'
import { InvalidJson } from './problem.ts'

const MAX_DEPTH = 64

export function parseJson(text: string): unknown {
  checkStructure(text)
  let value: unknown
  try {
    value = JSON.parse(text, (key, member, context?: { readonly source?: string }) => {
      if (!isStorable(key) || (typeof member === 'string' && !isStorable(member))) {
        throw InvalidJson('A string holds NUL or half of a surrogate pair.')
      }
      if (typeof member === 'number' && !Number.isFinite(member)) throw InvalidJson('A number is too large.')
      if (typeof member === 'number' && !isKept(member, context?.source)) {
        throw InvalidJson('A whole number is beyond 2^53, and would be changed; send it as a string.')
      }
      return member
    })
  } catch (error) {
    if (error instanceof SyntaxError) throw InvalidJson('The body is not valid JSON.', { cause: error })
    throw error
  }
  return value
}

/** Of what is written with a point or an exponent nobody expects all digits back. */
const isKept = (number: number, written = ''): boolean =>
  !Number.isInteger(number) || Number.isSafeInteger(number) || !/^-?\d+$/.test(written)

/** Walks the text once: how deep it nests, and whether an object has a key twice. Its grammar is JSON.parse's business. */
function checkStructure(text: string): void {
  const keys: (Set<string> | undefined)[] = []
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (char === '"') {
      const end = endOfString(text, at)
      const names = keys.at(-1)
      if (names && isFollowedByColon(text, end)) remember(names, text.slice(at, end + 1))
      at = end
    } else if (char === '{' || char === '[') {
      if (keys.push(char === '{' ? new Set() : undefined) > MAX_DEPTH) {
        throw InvalidJson(`The body nests deeper than ${MAX_DEPTH} levels.`)
      }
    } else if (char === '}' || char === ']') {
      keys.pop()
    }
  }
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at
  }
  return text.length
}

function isFollowedByColon(text: string, end: number): boolean {
  let at = end + 1
  while (at < text.length && ' \t\r\n'.includes(text.charAt(at))) at++
  return text[at] === ':'
}

function remember(names: Set<string>, quoted: string): void {
  const name = unquote(quoted)
  if (names.has(name)) throw InvalidJson(`The key ${JSON.stringify(name)} stands twice in one object.`)
  names.add(name)
}

function unquote(quoted: string): string {
  try {
    return JSON.parse(quoted)
  } catch {
    return quoted // not a string of JSON's: JSON.parse of the whole will say so
  }
}
