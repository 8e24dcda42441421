/** The failure of one of several objects, as a part of the result. */
import { DependencyUnavailable, TenancyError } from '../base/errors.ts'
import { isWriteOutage } from '../database/write-failures.ts'

export interface ItemFailure {
  readonly error: string
  readonly code: string
}

export const itemFailure = (error: unknown): ItemFailure => ({
  error: error instanceof Error ? error.message : String(error),
  code: codeOf(error),
})

function codeOf(error: unknown): string {
  if (error instanceof TenancyError) return error.code
  return isWriteOutage(error) ? DependencyUnavailable.code : 'E_INTERNAL'
}
