/** Errors of a migration run, and the failure of one storage: code, message, and whether another attempt may succeed. */

import { DependencyUnavailable, defineError, TenancyError } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'
import { writeFailure } from '../../kernel/database/write-failures.ts'

export const MigrationFailed = defineError('E_MIGRATION_FAILED', 409, 'A tenant migration failed')
export const MigrationLocked = defineError('E_MIGRATION_LOCKED', 409, 'A table was locked')
export const MigrationInterrupted = defineError('E_MIGRATION_INTERRUPTED', 500, 'A migration was interrupted')
export const MigrationRunning = defineError('E_MIGRATION_RUNNING', 409, 'Another migration run is unfinished')
export const MigrationRunNotFound = defineError('E_MIGRATION_RUN_NOT_FOUND', 404, 'Migration run not found')
export const MigrationRunEnded = defineError('E_MIGRATION_RUN_ENDED', 409, 'Migration run has ended')
/** Thrown by a command after it has printed the failed tenants. */
export const MigrationsIncomplete = defineError('E_MIGRATIONS_INCOMPLETE', 500, 'Not every tenant was migrated')

export interface MigrationFailure {
  readonly code: string
  /** Contains no row, value or server name. */
  readonly message: string
  readonly isPassing: boolean
}

const LOCK_NOT_AVAILABLE = '55P03'
const CONFLICTS = new Set(['40001', '40P01'])

export function migrationFailure(error: unknown, lockTimeoutMs: number): MigrationFailure {
  if (error instanceof TenancyError) {
    return { code: error.code, message: error.message, isPassing: error.status === 503 }
  }
  const state = sqlState(error)
  if (state === LOCK_NOT_AVAILABLE) {
    const message = `Another transaction locked a table for more than ${lockTimeoutMs} ms (lock_timeout). The migration was rolled back. End the other transaction or increase the lock timeout, then run the migrations again.`
    return { code: MigrationLocked.code, message, isPassing: true }
  }
  if (state && CONFLICTS.has(state)) {
    const message = `The migration conflicted with another transaction (SQLSTATE ${state}) and was rolled back. Run the migrations again.`
    return { code: MigrationLocked.code, message, isPassing: true }
  }
  if (isDatabaseUnavailable(error)) {
    const message = 'The database server of the tenant is unavailable.'
    return { code: DependencyUnavailable.code, message, isPassing: true }
  }
  const reason = writeFailure(error)
  if (reason !== undefined) {
    const message = `The database server cannot store data: ${reason}. Run the migrations again afterwards.`
    return { code: DependencyUnavailable.code, message, isPassing: true }
  }
  return {
    code: 'E_INTERNAL',
    message: 'The migrations failed with an internal error. The log contains the cause.',
    isPassing: false,
  }
}
