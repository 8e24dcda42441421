/** Numbers as they are given on a command line. */
import { invalid } from '../../kernel/base/errors.ts'

export function count(text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1)
    throw invalid([{ path: '', message: `"${text}" is not a whole number above 0` }])
  return value
}

export function countOrNone(text: string): number {
  return text === '0' ? 0 : count(text)
}
