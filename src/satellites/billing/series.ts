/** How many events of the provider came to what, and how many wait; read from the inbox for a scrape, every few seconds at most. */
import type { Series } from '../../kernel/metrics.ts'
import { type Refreshed, refreshed } from '../../kernel/refreshed.ts'
import type { BillingPart } from './part.ts'

const STATUSES = ['waiting', 'completed', 'ignored', 'failed'] as const

interface Count {
  readonly labels: { readonly status: string }
  readonly value: number
}

export class BillingSeries {
  readonly #counts: Refreshed<Count[]>

  constructor({ kernel }: BillingPart) {
    this.#counts = refreshed(async () => {
      const { rows } = await kernel.database.sql(
        'select status, count(*)::int as count from multitenancy.billing_inbox group by status',
      )
      const counted = new Map(rows.map(({ status, count }) => [status, count]))
      return STATUSES.map((status) => ({ labels: { status }, value: counted.get(status) ?? 0 }))
    })
  }

  series(): Series[] {
    return [
      {
        name: 'multitenancy_billing_events',
        help: 'Events of the payment provider that are kept, by what came of them',
        type: 'gauge',
        collect: () => this.#counts.get(),
      },
    ]
  }

  stop(): void {
    this.#counts.stop()
  }
}
