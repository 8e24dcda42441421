/** Counts results of attempts and durations of deliveries in this process, so that a scrape reads no database. */
import { Counter, Histogram, type Series } from '../../kernel/metrics/metrics.ts'
import type { Settlement } from './queue/queue.ts'

const OUTCOMES = ['delivered', 'retry_scheduled', 'failed'] as const
/** Seconds, up to the last attempt. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600, 3_600, 14_400]

export class WebhookSeries {
  readonly #attempts = new Counter()
  readonly #seconds = new Histogram(BOUNDS)

  constructor() {
    for (const outcome of OUTCOMES) this.#attempts.add({ outcome }, 0)
    this.#seconds.begin('', {})
  }

  add({ delivery, verdict }: Settlement, now: Date): void {
    this.#attempts.add({ outcome: verdict.state })
    const seconds = (now.getTime() - delivery.createdAt.getTime()) / 1_000
    if (verdict.state === 'delivered') this.#seconds.observe('', () => ({}), seconds)
  }

  series(): Series[] {
    return [
      {
        name: 'multitenancy_webhook_attempts_total',
        help: 'Attempts to deliver webhooks, by the resulting state of the delivery',
        type: 'counter',
        collect: () => this.#attempts.samples(),
      },
      {
        name: 'multitenancy_webhook_delivery_seconds',
        help: 'Seconds from dispatch to successful delivery',
        type: 'histogram',
        collect: () => this.#seconds.samples(),
      },
    ]
  }
}
