import { invalid } from '../../kernel/base/errors.ts'

/** JSON as it is given on a command line. */
export function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid([{ path: '', message: `"${text}" is not JSON` }])
  }
}
