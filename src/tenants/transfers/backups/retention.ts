/** Retention rules: due time and expiry of scheduled backups. Manual backups never expire. */

const HOUR_MS = 3_600_000
/** Delay after a failed backup. */
const TRY_AGAIN_MS = HOUR_MS

export interface Retention {
  /** Number of completed backups that are kept per tenant. */
  readonly keep: number
  /** Undefined: no scheduled backups. */
  readonly everyHours: number | undefined
}

export interface ScheduledBackup {
  readonly id: string
  readonly state: 'pending' | 'running' | 'completed' | 'failed' | 'cancelled'
  readonly createdAt: Date
}

/** @param newestFirst scheduled backups of one tenant */
export function isDue({ everyHours }: Retention, newestFirst: readonly ScheduledBackup[], now: Date): boolean {
  if (everyHours === undefined) return false
  const [last] = newestFirst
  if (!last) return true
  if (last.state === 'pending' || last.state === 'running') return false
  const every = everyHours * HOUR_MS
  const wait = last.state === 'completed' ? every : Math.min(TRY_AGAIN_MS, every)
  return now.getTime() - last.createdAt.getTime() >= wait
}

/** Ids of backups beyond the configured number, and of failures followed by a success or by another failure. */
export function expired({ keep }: Retention, newestFirst: readonly ScheduledBackup[]): string[] {
  const completed = newestFirst.filter(({ state }) => state === 'completed')
  const [newest] = completed
  const [lastFailed, ...failed] = newestFirst.filter(({ state }) => state === 'failed' || state === 'cancelled')
  if (lastFailed && newest && lastFailed.createdAt < newest.createdAt) failed.unshift(lastFailed)
  return [...completed.slice(keep), ...failed].map(({ id }) => id)
}
