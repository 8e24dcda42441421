import { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { SUM_NAME } from '../../kernel/store/sums.ts'

export const MetricKey = z.string().regex(SUM_NAME, `does not match ${SUM_NAME.source}`)

/** What guards count; the host counts whatever else it likes. */
export const GUARDED: ReadonlySet<string> = new Set(['requests', 'errors', 'bytes'])

/** What a host may count. On the path of every request, so without a schema. */
export function checkCount(key: string, amount: number): void {
  if (!SUM_NAME.test(key)) throw invalid([{ path: 'key', message: `"${key}" does not match ${SUM_NAME.source}` }])
  if (GUARDED.has(key)) throw invalid([{ path: 'key', message: `"${key}" is counted by the guard` }])
  if (!Number.isSafeInteger(amount) || amount < 0) {
    throw invalid([{ path: 'amount', message: 'not a whole number of 0 or more' }])
  }
}
