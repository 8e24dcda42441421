/** Pure mapping of a store step over several quotas to decisions, an error, or headers. */

import { InvalidRequest, type TenancyError } from '../../kernel/base/errors.ts'
import type { Readings, Taken } from '../../kernel/store/counters.ts'
import type { ResolvedPlan } from '../../tenants/registry/plans.ts'
import { type Decision, fits, rateLimitHeaders, remainingOf, resetAtOf, secondsToReset } from './decision.ts'
import { QuotaExceeded } from './errors.ts'

export interface QuotaAmount<Quota extends string = string> {
  readonly quota: Quota
  /** A whole number of 0 or more. Default: 1. */
  readonly amount?: number | undefined
}

export interface QuotaSnapshot {
  readonly plan: string
  readonly limits: Readonly<Record<string, number>>
  readonly usage: Readonly<Record<string, number>>
  /** Quotas whose usage is a gauge. */
  readonly gauges: string[]
}

export interface QuotaResult {
  readonly decisions: readonly (Decision & { readonly quota: string })[]
  readonly headers: Readonly<Record<string, string>>
}

export interface QuotaRequest {
  readonly quota: string
  readonly amount: number
  /** Null: unlimited. */
  readonly limit: number | null
}

export interface Outcome {
  readonly plan: ResolvedPlan
  readonly requests: readonly QuotaRequest[]
  readonly taken: Taken
  /** The store is unavailable, and the outage policy has decided. */
  readonly isDegraded: boolean
}

export interface Rejected {
  readonly request: QuotaRequest
  readonly usage: number
}

export function snapshotOf({ plan, limits }: ResolvedPlan, { today, gauges }: Readings): QuotaSnapshot {
  const names = [...new Set([...limits.keys(), ...today.keys(), ...gauges.keys()])].sort()
  const usage = names.map((name) => [name, today.get(name) ?? gauges.get(name) ?? 0] as const)
  return {
    plan,
    limits: Object.fromEntries(limits),
    usage: Object.fromEntries(usage),
    gauges: names.filter((name) => gauges.has(name) && !today.has(name)),
  }
}

/** Decision of the quota at `index`. */
export function decisionOf({ requests, taken, isDegraded }: Outcome, index = 0): Decision {
  const request = requests[index]
  if (!request) throw InvalidRequest('a step needs at least one quota')
  const usage = taken.usages[index] ?? 0
  return {
    allowed: taken.isAllowed,
    usage,
    limit: request.limit,
    remaining: remainingOf(usage, request.limit),
    resetAt: resetAtOf(taken.nowMs),
    degraded: isDegraded,
  }
}

/** The first quota whose limit was exceeded. */
export function rejectedOf({ requests, taken: { usages } }: Outcome): Rejected {
  const index = requests.findIndex(({ amount, limit }, index) => !fits(usages[index] ?? 0, amount, limit))
  const request = requests[index]
  if (!request) throw new Error('the store has rejected an amount that fits')
  return { request, usage: usages[index] ?? 0 }
}

export function rejectionOf(outcome: Outcome, hasHeaders: boolean): TenancyError {
  const { plan, taken } = outcome
  const { request, usage } = rejectedOf(outcome)
  const { quota, limit, amount: requested } = request
  const why = limit !== null && requested > limit ? ': it needs another plan.' : ` (used: ${usage}).`
  return QuotaExceeded(`Plan "${plan.plan}" allows ${limit} of "${quota}" a day${why}`, {
    extras: { quota, limit, usage, requested, resetAt: resetAtOf(taken.nowMs), plan: plan.plan },
    retryAfterSeconds: secondsToReset(taken.nowMs),
    headers: hasHeaders ? headersOf(outcome) : {},
  })
}

/** `RateLimit` and `RateLimit-Policy` of each limited quota. */
export function headersOf({ requests, taken, isDegraded }: Outcome): Record<string, string> {
  const each = requests.map(({ quota, limit }, index) => {
    const remaining = remainingOf(taken.usages[index] ?? 0, limit)
    return rateLimitHeaders(quota, { limit, remaining, degraded: isDegraded }, taken.nowMs)
  })
  if (each.length === 1) return each[0] ?? {}
  const names = new Set(each.flatMap((headers) => Object.keys(headers)))
  return Object.fromEntries(
    [...names].map((name) => [name, each.flatMap((headers) => headers[name] ?? []).join(', ')] as const),
  )
}
