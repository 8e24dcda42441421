/** Converts an error of a caller's SQL to `E_SQL_REJECTED`, with the message of the database. */

import { TenancyError } from '../../kernel/base/errors.ts'
import { isWriteOutage } from '../../kernel/database/write-failures.ts'
import { SqlRejected } from '../tenant/errors.ts'

/**
 * Connection, login, database, serialization and deadlock, resources, operator, system, internal: the SQL may be valid,
 * unless the severity is ERROR. Then the session lives and the server has rejected this SQL: it raised the state
 * itself, exceeded its time limit, or met a deadlock. A server that cannot store data rejects no SQL.
 */
const NOT_OF_THE_SQL = /^(08|28|3D|40|53|57|58|XX)/
const SQLSTATE = /^[0-9A-Z]{5}$/

interface DatabaseError {
  readonly message: string
  readonly code: string
  readonly detail?: string
  readonly hint?: string
  /** Character position in the statement, from 1. */
  readonly position?: string
  /** ERROR, or FATAL or PANIC if the session has ended. */
  readonly severity?: string
}

/**
 * Returns all other errors unchanged.
 * @param where prefix of the message, such as `line 3`; default: the character of the statement, which is also the
 * member `position`
 */
export function asRejected(error: unknown, where?: string): unknown {
  if (!isOfTheSql(error)) return error
  const { message, code, detail, hint, position } = error
  const character = where === undefined && Number(position) > 0 ? Number(position) : undefined
  const place = where ?? (character === undefined ? undefined : `character ${character}`)
  const words = [place, message, detail].filter((part) => part !== undefined).join(': ')
  return SqlRejected(hint === undefined ? words : `${words} (${hint})`, {
    extras: { sqlState: code, ...(character === undefined ? {} : { position: character }) },
    cause: error,
  })
}

function isOfTheSql(error: unknown): error is DatabaseError {
  if (!(error instanceof Error) || error instanceof TenancyError || isWriteOutage(error)) return false
  const { code, syscall, severity } = error as { code?: unknown; syscall?: unknown; severity?: unknown }
  if (typeof code !== 'string' || !SQLSTATE.test(code) || syscall !== undefined) return false
  return severity === 'ERROR' || !NOT_OF_THE_SQL.test(code)
}
