/** When a backup is due, and which are kept no longer: rules alone. Only backups that are made by themselves are removed by themselves. */

const HOUR_MS = 3_600_000
/** After one that failed. */
const TRY_AGAIN_MS = HOUR_MS

export interface Retention {
  /** How many completed ones of a tenant are kept. */
  readonly keep: number
  /** Undefined: none is made by itself. */
  readonly everyHours: number | undefined
}

export interface ScheduledBackup {
  readonly id: string
  readonly state: 'pending' | 'running' | 'completed' | 'failed' | 'cancelled'
  readonly createdAt: Date
}

/** @param newestFirst those of one tenant that were made by themselves. */
export function isDue({ everyHours }: Retention, newestFirst: readonly ScheduledBackup[], now: Date): boolean {
  if (everyHours === undefined) return false
  const [last] = newestFirst
  if (!last) return true
  if (last.state === 'pending' || last.state === 'running') return false
  const every = everyHours * HOUR_MS
  const wait = last.state === 'completed' ? every : Math.min(TRY_AGAIN_MS, every)
  return now.getTime() - last.createdAt.getTime() >= wait
}

/** Ids of those beyond the number that is kept, and of failures that were followed by a success, or by another failure. */
export function expired({ keep }: Retention, newestFirst: readonly ScheduledBackup[]): string[] {
  const completed = newestFirst.filter(({ state }) => state === 'completed')
  const [newest] = completed
  const [lastFailed, ...failed] = newestFirst.filter(({ state }) => state === 'failed' || state === 'cancelled')
  if (lastFailed && newest && lastFailed.createdAt < newest.createdAt) failed.unshift(lastFailed)
  return [...completed.slice(keep), ...failed].map(({ id }) => id)
}
