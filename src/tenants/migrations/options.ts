/** Options and report of a migration run. */
import { z } from 'zod'
import type { Counts, Direction, MigrationItem, Progress, RunState } from './model/run.ts'

/** Longer than the usual pauses of a process. */
export const LEASE_MS = 30_000

export const Count = z.number().int().min(1)

export const RunOptions = z.strictObject({
  ids: z.array(z.string()).min(1).optional(),
  concurrency: Count.max(16).default(4),
  retries: z.number().int().min(0).max(100).default(3),
  lockTimeoutMs: Count.max(86_400_000).default(10_000),
  stopAfterFailures: Count.optional(),
  leaseMs: Count.default(LEASE_MS),
})

export interface MigrateOptions {
  /** Ids of tenants; absent: all active and suspended tenants. */
  readonly ids?: readonly string[]
  /** Maximum of concurrent storages of this process; default 4. */
  readonly concurrency?: number
  /** Further attempts for a storage with locked tables or an unavailable server; default 3. */
  readonly retries?: number
  /** Maximum wait of a statement for a lock; default 10,000. */
  readonly lockTimeoutMs?: number
  /** Number of failures that ends the run; default 1 % of its storages, at least 10. A rollback has no default. */
  readonly stopAfterFailures?: number
  /** Queries every storage, including those with an up-to-date version in the backoffice. */
  readonly verify?: boolean
  /** Time until other processes take over the items of a killed process; default 30,000. */
  readonly leaseMs?: number
  /** Ends the work of this process; the same call continues the run. */
  readonly signal?: AbortSignal
  /** Called every second, and at the end. */
  readonly onProgress?: (progress: Progress) => void
}

export interface RollbackOptions extends Omit<MigrateOptions, 'verify'> {
  /** Number of migrations to roll back in each storage. */
  readonly steps: number
}

/** Contains the failures of storages; they are not thrown. */
export interface MigrationReport extends Counts {
  /** Null if there was no work. */
  readonly runId: string | null
  readonly direction: Direction
  /** `running` if the signal interrupted this process. */
  readonly state: RunState
  readonly total: number
  /** Whether the run reached its maximum of failures, and skipped the storages that were left. */
  readonly isStopped: boolean
  readonly items: readonly MigrationItem[]
}
