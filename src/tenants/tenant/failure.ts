/** Converts an error of a job to the failure stored for its readers; the log has the rest. */

import { DependencyUnavailable, TenancyError } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import { writeFailure } from '../../kernel/database/write-failures.ts'
import { rejectedEvent } from '../../kernel/events/events.ts'

export interface Failure {
  readonly code: string
  readonly message: string
}

/** Time until work continues on a server that could not store data. */
export const CONTINUED_AFTER_SECONDS = 15

/**
 * Whether a retry can succeed. Client errors and faulty migrations of the host are permanent; an unavailable server is
 * not.
 */
export const mayPass = (error: unknown): boolean => !(error instanceof TenancyError) || error.status === 503

/** @param otherwise for errors whose text stays in the log: all except those of listeners of the host */
export function failureOf(error: unknown, otherwise: Failure): Failure {
  if (error instanceof TenancyError) return { code: error.code, message: error.message }
  const reason = writeFailure(error)
  const isUnavailable = isDatabaseUnavailable(error) || reason !== undefined
  const code = isUnavailable ? DependencyUnavailable.code : otherwise.code
  const event = rejectedEvent(error)
  if (event && error instanceof Error) {
    // Messages of a database contain names of tables, rows and servers.
    const isOfDatabase = isUnavailable || sqlState(error) !== undefined
    return {
      code,
      message: `A listener of ${event} failed${isOfDatabase ? '. See the log for the cause.' : `: ${error.message}`}`,
    }
  }
  if (reason !== undefined) return { code, message: `A database server cannot store data: ${reason}.` }
  return isUnavailable ? { code, message: 'A database server is unavailable.' } : otherwise
}
