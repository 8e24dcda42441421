/**
 * Sums by tenant, key and day that this process has not flushed to the store. A request costs a few additions.
 *
 * The number of sums is limited. At the limit, existing sums continue, and dropped counts are reported.
 */
import { dateOf } from '../../kernel/store/counters.ts'
import { type Addition, summed } from '../../kernel/store/sums.ts'

const MAX_SUMS = 100_000

/** The guard's counters are members, so that a request needs one look-up. */
interface TenantCounters {
  requests: number
  errors: number
  bytes: number
  others: Map<string, number> | undefined
}

export interface DailyCounts {
  readonly day: number
  readonly date: string
  readonly additions: readonly Addition[]
}

export class LocalCounters {
  readonly #maxSums: number
  readonly #days = new Map<number, Map<string, TenantCounters>>()
  #sums = 0
  #dropped = 0

  constructor(maxSums = MAX_SUMS) {
    this.#maxSums = maxSums
  }

  get isEmpty(): boolean {
    return this.#days.size === 0
  }

  /** Counts a request that a guard has accepted. @param day from `dayOf` */
  countResponse(day: number, tenantId: string, status: number, bodyBytes: number): void {
    const counters = this.#countersOf(day, tenantId)
    if (!counters) return
    counters.requests += 1
    counters.bytes = summed(counters.bytes, bodyBytes)
    if (status >= 500) counters.errors += 1
  }

  add(day: number, tenantId: string, key: string, amount: number): void {
    const counters = this.#countersOf(day, tenantId)
    if (!counters) return
    counters.others ??= new Map()
    const before = counters.others.get(key)
    if (before === undefined && !this.#hasRoom()) return
    if (before === undefined) this.#sums += 1
    counters.others.set(key, summed(before ?? 0, amount))
  }

  /** Removes and returns all counts, the oldest day first. */
  take(): DailyCounts[] {
    const days = [...this.#days].sort(([a], [b]) => a - b)
    this.#days.clear()
    this.#sums = 0
    return days.map(([day, tenants]) => ({
      day,
      date: dateOf(day),
      additions: [...tenants].flatMap(([tenantId, counters]) => additionsOf(tenantId, counters)),
    }))
  }

  /** Number of counts that were dropped at the limit since the last call. */
  dropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  #countersOf(day: number, tenantId: string): TenantCounters | undefined {
    let tenants = this.#days.get(day)
    if (!tenants) {
      tenants = new Map()
      this.#days.set(day, tenants)
    }
    const known = tenants.get(tenantId)
    if (known || !this.#hasRoom()) return known
    const counters = { requests: 0, errors: 0, bytes: 0, others: undefined }
    tenants.set(tenantId, counters)
    this.#sums += 1
    return counters
  }

  #hasRoom(): boolean {
    if (this.#sums < this.#maxSums) return true
    this.#dropped += 1
    return false
  }
}

function additionsOf(tenantId: string, { requests, errors, bytes, others }: TenantCounters): Addition[] {
  const additions = [
    { tenantId, name: 'requests', amount: requests },
    { tenantId, name: 'errors', amount: errors },
    { tenantId, name: 'bytes', amount: bytes },
    ...[...(others ?? [])].map(([name, amount]) => ({ tenantId, name, amount })),
  ]
  return additions.filter(({ amount }) => amount > 0)
}
