/** What a step over quotas has come to: for the store one answer, for callers a decision, an error, or headers. Pure. */
import type { Taken } from '../../kernel/counters.ts'
import { InvalidRequest, type TenancyError } from '../../kernel/errors.ts'
import type { ResolvedPlan } from '../../tenants/plans.ts'
import { type Decision, fits, rateLimitHeaders, remainingOf, resetAtOf, secondsToReset } from './decision.ts'
import { QuotaExceeded } from './errors.ts'

export interface Wish {
  readonly quota: string
  readonly amount: number
  /** Null: unlimited. */
  readonly limit: number | null
}

export interface Outcome {
  readonly plan: ResolvedPlan
  readonly wishes: readonly Wish[]
  readonly taken: Taken
  /** The store is away, and the policy has decided without it. */
  readonly isDegraded: boolean
}

export interface Refused {
  readonly wish: Wish
  readonly usage: number
}

/** Of the quota at `index`. */
export function decisionOf({ wishes, taken, isDegraded }: Outcome, index = 0): Decision {
  const wish = wishes[index]
  if (!wish) throw InvalidRequest('nothing is named that could be decided')
  const usage = taken.usages[index] ?? 0
  return {
    allowed: taken.isAllowed,
    usage,
    limit: wish.limit,
    remaining: remainingOf(usage, wish.limit),
    resetAt: resetAtOf(taken.nowMs),
    degraded: isDegraded,
  }
}

/** The first quota that was not enough. */
export function refusedOf({ wishes, taken: { usages } }: Outcome): Refused {
  const index = wishes.findIndex(({ amount, limit }, index) => !fits(usages[index] ?? 0, amount, limit))
  const wish = wishes[index]
  if (!wish) throw new Error('the store has refused what fits')
  return { wish, usage: usages[index] ?? 0 }
}

export function refusalOf(outcome: Outcome, hasHeaders: boolean): TenancyError {
  const { plan, taken } = outcome
  const { wish, usage } = refusedOf(outcome)
  const { quota, limit, amount: requested } = wish
  return QuotaExceeded(`The plan "${plan.plan}" allows ${limit} of "${quota}" a day, and ${usage} are used.`, {
    extras: { quota, limit, usage, requested, resetAt: resetAtOf(taken.nowMs), plan: plan.plan },
    retryAfterSeconds: secondsToReset(taken.nowMs),
    headers: hasHeaders ? headersOf(outcome, wish, usage) : {},
  })
}

/** `RateLimit` and its policy, of the first quota unless another is named. */
export function headersOf({ wishes, taken, isDegraded }: Outcome, wish = wishes[0], usage = taken.usages[0] ?? 0) {
  if (!wish) return {}
  const { quota, limit } = wish
  return rateLimitHeaders(quota, { limit, remaining: remainingOf(usage, limit), degraded: isDegraded }, taken.nowMs)
}
