/** Counts provider events by outcome, in this process; a scrape reads memory only. */
import { Counter, type Series } from '../../../kernel/metrics/metrics.ts'

const OUTCOMES = ['completed', 'ignored', 'failed'] as const
type Outcome = (typeof OUTCOMES)[number]

export class EventCounts {
  readonly #counts = new Counter()

  constructor() {
    for (const outcome of OUTCOMES) this.#counts.add({ outcome }, 0)
  }

  add(outcome: Outcome): void {
    this.#counts.add({ outcome })
  }

  series(): Series {
    return {
      name: 'multitenancy_billing_events_total',
      help: 'Events of the payment provider by outcome. ignored: an event of the other mode (test or live); failed: failed permanently',
      type: 'counter',
      collect: () => this.#counts.samples(),
    }
  }
}
