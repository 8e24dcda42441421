/** The failure of one of several tenants, as a part of the result. */
import { DependencyUnavailable, TenancyError } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'

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
  return isDatabaseUnavailable(error) ? DependencyUnavailable.code : 'E_INTERNAL'
}
