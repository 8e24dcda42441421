/** What is decided of a quota, and what follows from it for whoever asked: functions of what they are given. */
import { z } from 'zod'
import { DAY_MS, dayOf } from '../../kernel/store/counters.ts'

export const Decision = z
  .object({
    allowed: z.boolean(),
    usage: z.number().meta({ description: 'After it; what was refused is not in it' }),
    limit: z.number().nullable().meta({ description: '`null`: unlimited' }),
    remaining: z.number().nullable(),
    resetAt: z.iso.datetime().nullable().meta({
      description: 'Midnight UTC by the clock of the store; `null` for a value that stands until it is set again',
    }),
    degraded: z.boolean().meta({ description: 'The store is away, and the policy has decided without it' }),
  })
  .meta({ id: 'QuotaDecision' })

export type Decision = Readonly<z.output<typeof Decision>>

/** A limit that is 0 allows none; nothing at all, an amount of 0, is always allowed. */
export const fits = (usage: number, amount: number, limit: number | null): boolean =>
  limit === null || amount === 0 || usage + amount <= limit

export const remainingOf = (usage: number, limit: number | null): number | null =>
  limit === null ? null : Math.max(0, limit - usage)

export const midnightAfter = (nowMs: number): number => (dayOf(nowMs) + 1) * DAY_MS

let latest = { day: Number.NaN, text: '' }

/** The midnight that ends the day of `nowMs`. Asked for on every request, and another one only once a day. */
export function resetAtOf(nowMs: number): string {
  const day = dayOf(nowMs)
  if (day !== latest.day) latest = { day, text: new Date((day + 1) * DAY_MS).toISOString() }
  return latest.text
}

export const secondsToReset = (nowMs: number): number => Math.max(1, Math.ceil((midnightAfter(nowMs) - nowMs) / 1_000))

const DAY_SECONDS = DAY_MS / 1_000

/**
 * `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11): what is allowed in a day, what is left of it, and
 * how many seconds until there is more. None for what is unlimited, or was decided without the store.
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
