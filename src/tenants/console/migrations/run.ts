/** A migration run, and how its progress is read. */
import type { Result } from '../../../console/api/contract.ts'

export type Run = Result<'migrationRuns.get'>
export type Version = Result<'migrations.status'>['versions'][number]

/** A run in progress is read again after this time. */
export const PROGRESS_MS = 1_000

export const isRunning = ({ state }: Pick<Run, 'state'>): boolean => state === 'running'
export const finishedOf = ({ done, failed, skipped }: Run): number => done + failed + skipped

/** Versions of tenants that a run changes. */
export const isBehind = ({ pending, isKnown }: Version): boolean => pending.length > 0 || !isKnown
