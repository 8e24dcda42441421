/** Pure rules of a quota decision: whether an amount fits, when the day ends, which headers the response has. */
import { z } from 'zod'
import { DAY_MS, dayOf, type Reading } from '../../kernel/store/counters.ts'

export const Decision = z
  .object({
    allowed: z.boolean(),
    usage: z.number().meta({ description: 'Usage after the call, without a rejected amount' }),
    limit: z.number().nullable().meta({ description: '`null`: unlimited' }),
    remaining: z.number().nullable(),
    resetAt: z.iso.datetime().nullable().meta({
      description: 'Midnight UTC by the clock of the store; `null` for a gauge',
    }),
    degraded: z.boolean().meta({ description: 'The store is unavailable, and the outage policy has decided' }),
  })
  .meta({ id: 'QuotaDecision' })

export type Decision = Readonly<z.output<typeof Decision>>

/** A limit of 0 allows no amount except 0. */
export const fits = (usage: number, amount: number, limit: number | null): boolean =>
  limit === null || amount === 0 || usage + amount <= limit

export const remainingOf = (usage: number, limit: number | null): number | null =>
  limit === null ? null : Math.max(0, limit - usage)

export const midnightAfter = (nowMs: number): number => (dayOf(nowMs) + 1) * DAY_MS

let latest = { day: Number.NaN, text: '' }

/** Whether `amount` more fits over a reading. Undefined: the store is unavailable, and everything fits. */
export function decisionOver(reading: Reading | undefined, amount: number, limit: number | null, now: Date): Decision {
  const usage = reading?.today ?? reading?.gauge ?? 0
  const isGauge = reading?.today === null && reading.gauge !== null
  return {
    allowed: !reading || fits(usage, amount, limit),
    usage,
    limit,
    remaining: remainingOf(usage, limit),
    resetAt: isGauge ? null : resetAtOf(reading?.nowMs ?? now.getTime()),
    degraded: !reading,
  }
}

/** The midnight that ends the day of `nowMs`. Cached, because every request needs it and it changes once a day. */
export function resetAtOf(nowMs: number): string {
  const day = dayOf(nowMs)
  if (day !== latest.day) latest = { day, text: new Date((day + 1) * DAY_MS).toISOString() }
  return latest.text
}

export const secondsToReset = (nowMs: number): number => Math.max(1, Math.ceil((midnightAfter(nowMs) - nowMs) / 1_000))

const DAY_SECONDS = DAY_MS / 1_000

/**
 * `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11): daily limit, remaining amount, and seconds until the
 * reset. Absent for unlimited quotas and for decisions without the store.
 */
export function rateLimitHeaders(
  quota: string,
  { limit, remaining, degraded }: Pick<Decision, 'limit' | 'remaining' | 'degraded'>,
  nowMs: number,
): Record<string, string> {
  if (limit === null || remaining === null || degraded) return {}
  return {
    'ratelimit-policy': `"${quota}";q=${Math.floor(limit)};w=${DAY_SECONDS}`,
    ratelimit: `"${quota}";r=${Math.floor(remaining)};t=${secondsToReset(nowMs)}`,
  }
}
