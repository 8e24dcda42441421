/** What is kept of a failure of a job, for whoever looks at what it was to do; the log has the rest. */
import { isDatabaseUnavailable } from '../kernel/database.ts'
import { DependencyUnavailable, TenancyError } from '../kernel/errors.ts'

export interface Failure {
  readonly code: string
  readonly message: string
}

/** What a caller could have known stays as it is, and a host's migration that is wrong stays wrong; a server that is away may come back. */
export const mayPass = (error: unknown): boolean => !(error instanceof TenancyError) || error.status === 503

/** @param otherwise for what is not to be told. */
export function failureOf(error: unknown, otherwise: Failure): Failure {
  if (error instanceof TenancyError) return { code: error.code, message: error.message }
  if (isDatabaseUnavailable(error)) {
    return { code: DependencyUnavailable.code, message: 'A database server could not be reached.' }
  }
  return otherwise
}
