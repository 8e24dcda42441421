/** Counters of quota decisions in this process. */
import type { Series } from '../../kernel/metrics/metrics.ts'

const DECISIONS = ['allowed', 'refused', 'tracked', 'degraded', 'unavailable'] as const
export type CountedDecision = (typeof DECISIONS)[number]

export class DecisionCounts {
  readonly #counts: Record<CountedDecision, number> = {
    allowed: 0,
    refused: 0,
    tracked: 0,
    degraded: 0,
    unavailable: 0,
  }

  add(decision: CountedDecision): void {
    this.#counts[decision]++
  }

  series(): Series {
    return {
      name: 'multitenancy_quota_decisions_total',
      help: 'Decisions over quotas; degraded: allowed without the store, unavailable: rejected without the store',
      type: 'counter',
      collect: () => DECISIONS.map((decision) => ({ labels: { decision }, value: this.#counts[decision] })),
    }
  }
}
