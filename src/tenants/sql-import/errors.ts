/** Errors of an import, with the line in the file and a note about the rollback. */
import { DependencyUnavailable, TenancyError } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import { writeFailure } from '../../kernel/database/write-failures.ts'
import { asRejected } from '../isolation/rejected-sql.ts'

/** The offset of the character in the server's error, whose position counts from 1. */
export function offsetOf(error: unknown, text: string): number | undefined {
  const position = Number((error as { position?: unknown }).position)
  if (!(position > 0)) return undefined
  let offset = 0
  for (let left = position - 1; left > 0 && offset < text.length; left--) {
    offset += (text.codePointAt(offset) ?? 0) > 0xffff ? 2 : 1
  }
  return offset
}

export const lineBreaks = (text: string, end: number): number => text.slice(0, end).split('\n').length - 1

export function toImportError(where: string, error: unknown): unknown {
  if (DependencyUnavailable.matches(error))
    return withMessage(error, `${where}: the connection to the database of the tenant was lost`)
  if (error instanceof TenancyError) return withMessage(error, `${where}: ${error.message}`)
  if (isDatabaseUnavailable(error))
    return DependencyUnavailable(`${where}: the connection to the database of the tenant was lost`, { cause: error })
  const reason = writeFailure(error)
  if (reason !== undefined)
    return DependencyUnavailable(`${where}: the database of the tenant cannot store data: ${reason}`, { cause: error })
  const rejected = asRejected(error, where)
  if (rejected !== error) return rejected
  return new Error(`${where}: ${error instanceof Error ? error.message : error}`, { cause: error })
}

export function toRolledBack(error: unknown): unknown {
  const text = `${error instanceof Error ? error.message : error}\nEverything was rolled back; nothing was imported.`
  return error instanceof TenancyError ? withMessage(error, text) : new Error(text, { cause: error })
}

const withMessage = (error: TenancyError, text: string): TenancyError =>
  new TenancyError(error, text, {
    extras: error.extras,
    ...(error.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: error.retryAfterSeconds }),
    cause: error,
  })
