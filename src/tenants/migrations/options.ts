/** How a run is asked for, and what is answered. */
import { z } from 'zod'
import type { Counts, Direction, MigrationItem, Progress, RunState } from './model/run.ts'

/** Longer than a process stands still for by accident; renewed while it works. */
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
  /** Only these tenants; absent: all that are active or suspended. */
  readonly ids?: readonly string[]
  /** Storages that this process migrates at a time; default 4. */
  readonly concurrency?: number
  /** How often a storage is tried again whose tables are locked or whose server is away; default 3. */
  readonly retries?: number
  /** How long a statement may wait for a lock; default 10,000. */
  readonly lockTimeoutMs?: number
  /** So many failures end the run; absent: it goes on to its end. */
  readonly stopAfterFailures?: number
  /** Asks every storage, also those that are up to date as far as is known. */
  readonly verify?: boolean
  /** What a killed process had claimed is free after this time; default 30,000. */
  readonly leaseMs?: number
  /** Ends the part of this process; asking for the same again goes on. */
  readonly signal?: AbortSignal
  /** Every second, and at the end. */
  readonly onProgress?: (progress: Progress) => void
}

export interface RollbackOptions extends Omit<MigrateOptions, 'verify'> {
  /** How many migrations each storage takes back. */
  readonly steps: number
}

/** Failures of storages are in it; they are not thrown. */
export interface MigrationReport extends Counts {
  /** Null when there was nothing to do. */
  readonly runId: string | null
  readonly direction: Direction
  /** `running` when this process was interrupted. */
  readonly state: RunState
  readonly total: number
  readonly items: readonly MigrationItem[]
}
