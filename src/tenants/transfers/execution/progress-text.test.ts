import { expect, test } from 'vitest'
import { NO_PROGRESS, type Transfer } from '../model/transfer.ts'
import { progressText } from './progress-text.ts'

const BEGUN = '2026-06-01T12:00:00.000Z'
const at = (seconds: number) => new Date(Date.parse(BEGUN) + seconds * 1_000)
const transfer = (over: Partial<Transfer>) =>
  ({ phase: 'loading', startedAt: BEGUN, progress: NO_PROGRESS, ...over }) as Transfer
const progress = { tables: 2, rows: 1_200_000, bytes: 120_400_000, estimate: { tables: 5, rows: 2_000_000 } }

test.each<[string, Partial<Transfer>, number, string]>([
  ['without any progress', { phase: 'waiting' }, 0, 'waiting for a worker'],
  [
    'during a copy',
    { progress },
    30,
    'copying, about 20 s left: 2 of 5 tables, 1,200,000 of about 2,000,000 rows, 120 MB, 4.0 MB a second',
  ],
  [
    'during a long copy',
    { progress },
    3_600,
    'copying, about 40 min left: 2 of 5 tables, 1,200,000 of about 2,000,000 rows, 120 MB, 33.4 kB a second',
  ],
  [
    'with an estimate that was too low',
    { progress: { ...progress, rows: 2_100_000 } },
    30,
    'copying: 2 of 5 tables, 2,100,000 rows, 120 MB, 4.0 MB a second',
  ],
  [
    'without an estimate',
    { phase: 'writing', progress: { ...progress, bytes: 999, estimate: { tables: 5, rows: null } } },
    30,
    'writing the archive: 2 of 5 tables, 1,200,000 rows, 999 B, 33 B a second',
  ],
  [
    'after the last row',
    { phase: 'indexing', progress: { ...progress, bytes: 1_500 } },
    30,
    'creating indexes and foreign keys: 2 of 5 tables, 1,200,000 rows, 1.5 kB',
  ],
])('%s', (_, over, seconds, text) => {
  expect(progressText(transfer(over), at(seconds))).toBe(text)
})
