/** Converts the text of options and arguments to numbers or JSON, and names their values. */
import { invalid, type TenancyError } from '../base/errors.ts'

const rejected = (text: string, expected: string, path = ''): TenancyError =>
  invalid([{ path, message: `"${text}" must be ${expected}` }])

export function count(text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw rejected(text, 'a whole number above 0')
  return value
}

export function countOrNone(text: string): number {
  return text === '0' ? 0 : count(text)
}

export function seconds(text: string): number {
  const value = Number(text)
  if (!Number.isFinite(value) || value < 0) throw rejected(text, 'a number of seconds')
  return value
}

/** `Number` would accept blanks, `0x10` and `1e1`. */
export function decimal(text: string, path = ''): number {
  if (!/^\d+(\.\d+)?$/.test(text)) throw rejected(text, 'a number of 0 or more', path)
  return Number(text)
}

export function json(text: string, path = ''): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw rejected(text, 'JSON', path)
  }
}

/** Text that is not JSON is a string. */
export function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** The name under which the value of an option arrives: `retryAfter` of `--retry-after <seconds>`. */
export const keyOf = (flags = ''): string =>
  (/^--(?:no-)?([\w-]+)/.exec(flags)?.[1] ?? '').replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase())
