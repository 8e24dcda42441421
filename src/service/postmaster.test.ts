import { expect, test } from 'vitest'
import { withoutRejections } from './postmaster.ts'

test('withoutRejections keeps the cause of a failed start, and removes rejected connections', () => {
  const rejections = [
    '2026-01-01 12:00:00.100 UTC [12] FATAL:  the database system is starting up',
    '2026-01-01 12:00:00.200 UTC [13] FATAL:  the database system is not yet accepting connections',
    '2026-01-01 12:00:00.200 UTC [13] DETAIL:  Consistent recovery state has not been yet reached.',
    '2026-01-01 12:00:00.300 UTC [14] FATAL:  the database system is shutting down',
  ]
  const cause = [
    '2026-01-01 12:00:00.000 UTC [11] LOG:  database system was interrupted',
    '2026-01-01 12:00:00.250 UTC [11] PANIC:  could not locate a valid checkpoint record at 0/1000028',
  ]
  const [first, last] = cause
  expect(withoutRejections([first, ...rejections, last].join('\n'))).toBe(cause.join('\n'))
  expect(withoutRejections(rejections.join('\n'))).toBe('')
})
