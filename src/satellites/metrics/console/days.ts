/** Days of sums: a day without a count is 0. */
import type { Result } from '../../../console/api/contract.ts'

export type Sums = Result<'metrics.sums'>

export interface Day {
  readonly period: string
  readonly value: number
}

const DAY_MS = 86_400_000

/** Each day of the period, the oldest first. */
export function daysOf({ from, to, data }: Sums): Day[] {
  const values = new Map(data.map(({ period, value }) => [period, value]))
  const count = Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1
  return Array.from({ length: Math.max(count, 0) }, (_, index) => {
    const period = new Date(Date.parse(from) + index * DAY_MS).toISOString().slice(0, 10)
    return { period, value: values.get(period) ?? 0 }
  })
}
