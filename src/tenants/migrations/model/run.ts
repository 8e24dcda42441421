/**
 * One run of the host's migrations over the storages of many tenants, and its items: one for each storage. Where tenants of a
 * placement share their tables, that is one item for all of them.
 *
 *   run    running ──nothing left to do──► completed | failed (an item has) | cancelled
 *
 *   item   pending ──claim()──► running ──settle()──► done | failed | skipped (its tenant went away meanwhile)
 *             ▲                    │
 *             └────────────────────┘ tried again later; given back; its lease ran out, as its process was killed
 *
 * Of all processes at most one run is running at a time: a unique index decides. Nothing of a run that is given up is lost:
 * what is pending is known from the tenants, not from the run.
 */
import { createHash } from 'node:crypto'
import { type Pace, type PaceSample, paceOf } from '../../../kernel/base/progress-rate.ts'

export type Direction = 'up' | 'down'
export type RunState = 'running' | 'completed' | 'failed' | 'cancelled'
export const ITEM_STATES = ['pending', 'running', 'done', 'failed', 'skipped'] as const
export type ItemState = (typeof ITEM_STATES)[number]
export type Counts = Readonly<Record<ItemState, number>>

export interface MigrationRun {
  readonly id: string
  readonly direction: Direction
  /** How many migrations are taken back; null for the way up. */
  readonly steps: number | null
  /** Which storages were asked for. */
  readonly scope: string
  /** Version of the folder it was begun with. */
  readonly target: string
  readonly state: RunState
  readonly isCancelled: boolean
  readonly retries: number
  readonly lockTimeoutMs: number
  readonly stopAfterFailures: number | null
  readonly createdAt: Date
  readonly finishedAt: Date | null
}

/** What is kept of an item, for reports. */
export interface MigrationItem {
  /** Null where tenants share their tables. */
  readonly tenantId: string | null
  readonly isolation: string
  readonly placement: string
  readonly state: ItemState
  /** Run, or taken back. */
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

/** The same ids, in whatever order, are the same scope. */
export function scopeOf(ids: readonly string[] | undefined, verify: boolean): string {
  const which = ids
    ? createHash('sha256')
        .update([...ids].sort().join(' '))
        .digest('hex')
    : 'all'
  return verify ? `${which}${VERIFIED}` : which
}

/** Whether every storage is asked what it has, whatever is known of it. */
export const isVerified = ({ scope }: Pick<MigrationRun, 'scope'>): boolean => scope.endsWith(VERIFIED)

/**
 * What becomes of a request while a run is unfinished: it is joined when it is the same one. Another one gives way once nobody
 * works on it, unless it is a rollback: which of its tenants have yet to be rolled back, it alone knows.
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
  return hasActiveWorker || run.direction === 'down' ? 'reject' : 'supersede'
}

const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 30_000

/** Doubled with each attempt. */
export const retryDelayMs = (attempts: number): number => Math.min(FIRST_RETRY_MS * 2 ** (attempts - 1), LAST_RETRY_MS)

/** The pace is that of all processes. */
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
