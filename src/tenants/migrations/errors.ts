/** Errors of a run, and the failure of one storage: its code, its message, and whether a further attempt may help. */

import { DependencyUnavailable, defineError, TenancyError } from '../../kernel/base/errors.ts'
import { isDatabaseUnavailable, sqlState } from '../../kernel/database/database.ts'

export const MigrationFailed = defineError('E_MIGRATION_FAILED', 409, 'A tenant migration failed')
export const MigrationLocked = defineError('E_MIGRATION_LOCKED', 409, 'A table stayed locked')
export const MigrationInterrupted = defineError('E_MIGRATION_INTERRUPTED', 500, 'A migration was interrupted')
export const MigrationRunning = defineError('E_MIGRATION_RUNNING', 409, 'Another migration run is unfinished')
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
    const message = `A table stayed locked by another transaction for ${lockTimeoutMs} ms (lock_timeout); nothing was changed.`
    return { code: MigrationLocked.code, message, isPassing: true }
  }
  if (state && CONFLICTS.has(state)) {
    const message = `The migration gave way to another transaction (SQLSTATE ${state}); nothing was changed.`
    return { code: MigrationLocked.code, message, isPassing: true }
  }
  if (isDatabaseUnavailable(error)) {
    const message = "The tenant's database server could not be reached."
    return { code: DependencyUnavailable.code, message, isPassing: true }
  }
  return { code: 'E_INTERNAL', message: 'The migrations could not be run; the log says why.', isPassing: false }
}
