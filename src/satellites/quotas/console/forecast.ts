/**
 * When a limit is reached at the present rate.
 *
 * - A daily counter: its usage since 00:00 UTC. The counter restarts at 00:00 UTC, so the time is before it, or there is none.
 * - A gauge has no history. Its rate is the daily average of the metric with its name, if the host counts one.
 */
import type { DailyAmount } from '../../../console/module.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** A shorter part of a day has no rate. */
const LEAST_MS = HOUR_MS
const LONGEST_MS = 365 * DAY_MS
/** Full days of the average of a metric. */
export const RATE_DAYS = 14

export interface Forecast {
  readonly kind: 'daily' | 'gauge'
  /** Of an hour; of a gauge, of a day. */
  readonly rate: number
  /** Full days from which the rate of a gauge is known. */
  readonly days: number
  /** Undefined: not before the counter restarts; of a gauge, not within a year. */
  readonly at: Date | undefined
}

export interface ForecastInput {
  readonly usage: number
  readonly limit: number | undefined
  readonly isGauge: boolean
  /** Of the metric of a gauge. */
  readonly average?: Average | undefined
  readonly now: Date
}

export interface Average {
  readonly perDay: number
  readonly days: number
}

/** Undefined without a rate, without a limit, and if the limit is reached. */
export function forecastOf({ usage, limit, isGauge, average, now }: ForecastInput): Forecast | undefined {
  if (limit === undefined || usage >= limit) return undefined
  const nowMs = now.getTime()
  if (isGauge) {
    if (!average || average.perDay <= 0) return undefined
    const lengthMs = ((limit - usage) / average.perDay) * DAY_MS
    const at = lengthMs < LONGEST_MS ? new Date(nowMs + lengthMs) : undefined
    return { kind: 'gauge', rate: average.perDay, days: average.days, at }
  }
  const elapsedMs = nowMs % DAY_MS
  if (usage === 0 || elapsedMs < LEAST_MS) return undefined
  const lengthMs = (limit / usage) * elapsedMs
  const at = lengthMs < DAY_MS ? new Date(nowMs - elapsedMs + lengthMs) : undefined
  return { kind: 'daily', rate: (usage / elapsedMs) * HOUR_MS, days: 0, at }
}

/** The full days before today, and the day after the last one. */
export function rateDays(now: Date): { readonly from: string; readonly to: string } {
  const dateOf = (daysBack: number) => new Date(now.getTime() - daysBack * DAY_MS).toISOString().slice(0, 10)
  return { from: dateOf(RATE_DAYS), to: dateOf(0) }
}

/**
 * Daily averages by key, since the oldest amount of the key.
 *
 * @param amounts of the full days before `to`, the newest first
 * @param isComplete false: older amounts are missing, so the oldest day is left out
 */
export function averagesOf(amounts: readonly DailyAmount[], isComplete: boolean, to: string): Map<string, Average> {
  const oldest = amounts.at(-1)?.period
  if (oldest === undefined) return new Map()
  const daysSince = (period: string) => Math.round((Date.parse(to) - Date.parse(period)) / DAY_MS)
  const maxDays = isComplete ? RATE_DAYS : daysSince(oldest) - 1
  return new Map(
    [...Map.groupBy(amounts, ({ key }) => key)].flatMap(([key, own]) => {
      const known = own.filter(({ period }) => isComplete || period !== oldest)
      if (known.length === 0) return []
      const days = Math.min(maxDays, daysSince(own.at(-1)?.period ?? oldest))
      return [[key, { perDay: known.reduce((sum, { value }) => sum + value, 0) / days, days }] as const]
    }),
  )
}
