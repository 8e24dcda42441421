/**
 * The rules of a migration run and its items: one item for each storage. Tenants that share their tables have one item.
 *
 *   run    running ──no work left──► completed | failed (an item has failed) | cancelled
 *
 *   item   pending ──claim()──► running ──record()──► done | failed | skipped (its tenant was deleted)
 *             ▲                    │
 *             └────────────────────┘ retry; release; expired lease of a killed process
 *
 * A unique index allows one running run. An abandoned run loses no work: pending migrations are known from the tenants.
 */
import { createHash } from 'node:crypto'
import type { Actor } from '../../../kernel/base/context.ts'
import { type Pace, type PaceSample, paceOf } from '../../../kernel/base/progress-rate.ts'

export type Direction = 'up' | 'down'
export type RunState = 'running' | 'completed' | 'failed' | 'cancelled'
export const ITEM_STATES = ['pending', 'running', 'done', 'failed', 'skipped'] as const
export type ItemState = (typeof ITEM_STATES)[number]
export type Counts = Readonly<Record<ItemState, number>>

export interface MigrationRun {
  readonly id: string
  readonly direction: Direction
  /** Number of migrations to roll back; null for a migration. */
  readonly steps: number | null
  /** The digest of the requested storages. */
  readonly scope: string
  /** Version of the folder at the start. */
  readonly target: string
  readonly state: RunState
  readonly isCancelled: boolean
  /** Whether jobs of the workers carry it out; otherwise the process of a command or of the host. */
  readonly isBackground: boolean
  /** Who started it, and in which request. Null for a run of an earlier release. */
  readonly actor: Actor | null
  readonly requestId: string | null
  readonly retries: number
  readonly lockTimeoutMs: number
  readonly stopAfterFailures: number | null
  readonly createdAt: Date
  readonly finishedAt: Date | null
  /** Since its end. */
  readonly counts: Counts | null
}

export type CountedRun = MigrationRun & Counts

/** An item in a report. */
export interface MigrationItem {
  /** Null for a shared storage. */
  readonly tenantId: string | null
  readonly isolation: string
  readonly placement: string
  readonly state: ItemState
  /** Migrations that were run or rolled back. */
  readonly migrations: readonly string[]
  readonly attempts: number
  readonly durationMs: number | null
  readonly error: { readonly code: string; readonly message: string } | null
}

export interface RunRequest {
  readonly direction: Direction
  readonly steps: number | null
  readonly scope: string
  readonly target: string
}

const VERIFIED = ' verified'

/** The same ids in any order are the same scope. */
export function scopeOf(ids: readonly string[] | undefined, verify: boolean): string {
  const which = ids
    ? createHash('sha256')
        .update([...ids].sort().join(' '))
        .digest('hex')
    : 'all'
  return verify ? `${which}${VERIFIED}` : which
}

/** Whether the run queries every storage. */
export const isVerified = ({ scope }: Pick<MigrationRun, 'scope'>): boolean => scope.endsWith(VERIFIED)

/**
 * Decides about a request while a run is unfinished. The same request joins the run. Another request supersedes a run without an active
 * worker, except a rollback, because only the run has the list of tenants that are left, and a run that waits for a worker of this release.
 */
export function resolveConflict(
  run: MigrationRun,
  hasActiveWorker: boolean,
  request: RunRequest,
): 'join' | 'supersede' | 'reject' {
  const isSame =
    run.direction === request.direction &&
    run.steps === request.steps &&
    run.scope === request.scope &&
    run.target === request.target &&
    !run.isCancelled
  if (isSame) return 'join'
  if (run.isCancelled) return hasActiveWorker ? 'reject' : 'supersede'
  const waitsForWorker = run.isBackground && run.target === request.target
  return hasActiveWorker || run.direction === 'down' || waitsForWorker ? 'reject' : 'supersede'
}

const STOP_AFTER_SHARE = 0.01
const STOP_AFTER_AT_LEAST = 10

/**
 * Number of failures that ends a run by default: 1 % of its items, at least 10. Null for a rollback: another one after a stop would roll
 * back more of the tenants that are done.
 */
export const defaultStopAfter = (direction: Direction, items: number): number | null =>
  direction === 'up' ? Math.max(STOP_AFTER_AT_LEAST, Math.ceil(items * STOP_AFTER_SHARE)) : null

const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 30_000

/** Doubles with each attempt. */
export const retryDelayMs = (attempts: number): number => Math.min(FIRST_RETRY_MS * 2 ** (attempts - 1), LAST_RETRY_MS)

/** The pace is the sum of all processes. */
export interface Progress extends Counts, Pace {
  readonly total: number
}

/** Items that are done, failed or skipped. */
export const finishedOf = ({ done, failed, skipped }: Counts): number => done + failed + skipped

export function progressOf(counts: Counts, samples: readonly PaceSample[]): Progress {
  const left = counts.pending + counts.running
  return { ...counts, total: left + finishedOf(counts), ...paceOf(samples, left) }
}

export const NO_COUNTS: Counts = { pending: 0, running: 0, done: 0, failed: 0, skipped: 0 }
