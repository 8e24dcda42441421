/** What is kept of a failure of a job, for whoever looks at what it was to do; the log has the rest. */

import { DependencyUnavailable, TenancyError } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import { rejectedEvent } from '../../kernel/events/events.ts'

export interface Failure {
  readonly code: string
  readonly message: string
}

/** What a caller could have known stays as it is, and a host's migration that is wrong stays wrong; a server that is away may come back. */
export const mayPass = (error: unknown): boolean => !(error instanceof TenancyError) || error.status === 503

/** @param otherwise for errors whose text stays in the log: all but those that a listener of the host throws */
export function failureOf(error: unknown, otherwise: Failure): Failure {
  if (error instanceof TenancyError) return { code: error.code, message: error.message }
  const isUnavailable = isDatabaseUnavailable(error)
  const code = isUnavailable ? DependencyUnavailable.code : otherwise.code
  const event = rejectedEvent(error)
  if (event && error instanceof Error) {
    // The words of a database name tables, rows and servers.
    const isOfDatabase = isUnavailable || sqlState(error) !== undefined
    return {
      code,
      message: `A listener of ${event} failed${isOfDatabase ? '. See the log for the cause.' : `: ${error.message}`}`,
    }
  }
  return isUnavailable ? { code, message: 'A database server could not be reached.' } : otherwise
}
