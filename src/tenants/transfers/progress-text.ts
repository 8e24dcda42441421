/** How far a transfer is, in one line. */
import type { Phase, Transfer } from './transfer.ts'

const DOING: Readonly<Record<Phase, string>> = {
  waiting: 'waiting for a worker',
  closing: 'closing the storage',
  making: 'making the storage',
  loading: 'copying',
  indexing: 'making indexes and foreign keys',
  migrating: 'running migrations',
  verifying: 'verifying',
  writing: 'writing the archive',
  switching: 'switching',
  done: 'done',
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']
const SOON_SECONDS = 90

/** `copying: 2 of 5 tables, 1,200,000 of about 2,000,000 rows, 120 MB, about 20 s left` */
export function progressText({ phase, progress, startedAt }: Transfer, now: Date): string {
  const { tables, rows, bytes, estimate } = progress
  if (!estimate) return DOING[phase]
  const parts = [`${tables} of ${estimate.tables} tables`]
  const isCopying = phase === 'loading' || phase === 'writing'
  const expected = estimate.rows !== null && estimate.rows > rows ? ` of about ${number(estimate.rows)}` : ''
  parts.push(`${number(rows)}${isCopying ? expected : ''} rows`, size(bytes))
  if (isCopying && startedAt && expected && rows > 0 && estimate.rows !== null) {
    const seconds = (now.getTime() - Date.parse(startedAt)) / 1_000
    parts.push(`about ${duration((seconds / rows) * (estimate.rows - rows))} left`)
  }
  return `${DOING[phase]}: ${parts.join(', ')}`
}

export const number = (value: number): string => Math.round(value).toLocaleString('en-US')

export function size(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), UNITS.length - 1)
  const value = bytes / 1_000 ** power
  return `${value >= 100 || power === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`
}

function duration(seconds: number): string {
  if (seconds < SOON_SECONDS) return `${Math.max(1, Math.round(seconds))} s`
  return `${Math.round(seconds / 60)} min`
}
