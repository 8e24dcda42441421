/** Formats the progress of a transfer in one line. The remaining time comes first: narrow terminals cut off the end. */
import { duration, number, size } from '../../../kernel/base/format.ts'
import type { Phase, Transfer } from '../model/transfer.ts'

const DOING: Readonly<Record<Phase, string>> = {
  waiting: 'waiting for a worker',
  closing: 'closing the storage',
  making: 'creating the storage',
  loading: 'copying',
  indexing: 'creating indexes and foreign keys',
  migrating: 'running migrations',
  verifying: 'verifying',
  writing: 'writing the archive',
  switching: 'switching',
  done: 'done',
}

/** `copying, about 20 s left: 2 of 5 tables, 1,200,000 of about 2,000,000 rows, 120 MB, 4.0 MB a second` */
export function progressText({ phase, progress, startedAt }: Transfer, now: Date): string {
  const { tables, rows, bytes, estimate } = progress
  if (!estimate) return DOING[phase]
  const parts = [`${tables} of ${estimate.tables} tables`]
  const isCopying = phase === 'loading' || phase === 'writing'
  const expected = estimate.rows !== null && estimate.rows > rows ? ` of about ${number(estimate.rows)}` : ''
  parts.push(`${number(rows)}${isCopying ? expected : ''} rows`, size(bytes))
  const seconds = startedAt && isCopying ? (now.getTime() - Date.parse(startedAt)) / 1_000 : 0
  if (seconds >= 1 && bytes > 0) parts.push(`${size(bytes / seconds)} a second`)
  const isForeseen = seconds > 0 && expected && rows > 0
  const left = isForeseen ? `, about ${duration((seconds / rows) * ((estimate.rows ?? 0) - rows))} left` : ''
  return `${DOING[phase]}${left}: ${parts.join(', ')}`
}
