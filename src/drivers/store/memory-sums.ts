/** Sums of the store inside one process; they are lost when the process ends. */
import { randomUUID } from 'node:crypto'
import type { Clock } from '../../kernel/base/clock.ts'
import { DAY_MS, dateOf, dayOf } from '../../kernel/store/counters.ts'
import {
  checkBatch,
  checkDay,
  checkReading,
  SUM_TTL_SECONDS,
  type Sum,
  type SumBatch,
  type SumOfDay,
  type Sums,
  summed,
} from '../../kernel/store/sums.ts'

const DAYS_KEPT = (SUM_TTL_SECONDS * 1_000) / DAY_MS

interface OfTenant {
  readonly incarnation: string
  readonly sums: Map<string, number>
}

export class MemorySums implements Sums {
  readonly outliveProcess = false
  readonly additionsAtOnce = 10_000
  readonly #clock: Clock
  readonly #days = new Map<string, Map<string, OfTenant>>()
  readonly #numbers = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async add(batch: SumBatch): Promise<void> {
    checkBatch(batch)
    const { day, source, number, additions } = batch
    if (number <= (this.#numbers.get(source) ?? -1)) return
    this.#numbers.set(source, number)
    const tenants = this.#tenantsOf(day)
    for (const { tenantId, name, amount } of additions) {
      let own = tenants.get(tenantId)
      if (!own) {
        own = { incarnation: randomUUID(), sums: new Map() }
        tenants.set(tenantId, own)
      }
      own.sums.set(name, summed(own.sums.get(name) ?? 0, amount))
    }
  }

  async read(tenantId: string, days: readonly string[]): Promise<readonly SumOfDay[]> {
    checkReading(tenantId, days)
    return days.flatMap((day) =>
      sumsOf(tenantId, this.#days.get(day)?.get(tenantId)).map((sum) => Object.assign(sum, { day })),
    )
  }

  async *pages(day: string): AsyncGenerator<readonly Sum[]> {
    checkDay(day)
    const all = [...(this.#days.get(day) ?? [])].flatMap(([tenantId, own]) => sumsOf(tenantId, own))
    if (all.length > 0) yield all
  }

  purge(tenantId: string): void {
    for (const tenants of this.#days.values()) tenants.delete(tenantId)
  }

  count(tenantId: string): number {
    return [...this.#days.values()].filter((tenants) => tenants.has(tenantId)).length
  }

  close(): void {
    this.#days.clear()
  }

  #tenantsOf(day: string): Map<string, OfTenant> {
    let tenants = this.#days.get(day)
    if (!tenants) {
      const first = dateOf(dayOf(this.#clock.now().getTime()) - DAYS_KEPT)
      for (const old of this.#days.keys()) if (old < first) this.#days.delete(old)
      tenants = new Map()
      this.#days.set(day, tenants)
    }
    return tenants
  }
}

const sumsOf = (tenantId: string, own: OfTenant | undefined): Sum[] =>
  [...(own?.sums ?? [])].map(([name, sum]) => ({ tenantId, name, incarnation: own?.incarnation ?? '', sum }))
