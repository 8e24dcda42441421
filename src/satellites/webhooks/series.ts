/** What became of attempts, and how long deliveries took; counted in this process, so a scrape only prints. */
import { Counter, Histogram, type Series } from '../../kernel/metrics/metrics.ts'
import type { Verdict } from './model/delivery.ts'

const OUTCOMES = ['delivered', 'retry_scheduled', 'failed'] as const
/** Seconds: from at once to the last attempt. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600, 3_600, 14_400]

export class WebhookSeries {
  readonly #attempts = new Counter()
  readonly #seconds = new Histogram(BOUNDS)

  constructor() {
    for (const outcome of OUTCOMES) this.#attempts.add({ outcome }, 0)
    this.#seconds.begin('', {})
  }

  /** @param seconds since it was dispatched */
  add(outcome: Verdict['state'], seconds: number): void {
    this.#attempts.add({ outcome })
    if (outcome === 'delivered') this.#seconds.observe('', () => ({}), seconds)
  }

  series(): Series[] {
    return [
      {
        name: 'multitenancy_webhook_attempts_total',
        help: 'Attempts to deliver webhooks, by what the delivery became',
        type: 'counter',
        collect: () => this.#attempts.samples(),
      },
      {
        name: 'multitenancy_webhook_delivery_seconds',
        help: 'From dispatch to delivery, of what was delivered',
        type: 'histogram',
        collect: () => this.#seconds.samples(),
      },
    ]
  }
}
