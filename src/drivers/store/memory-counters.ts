/** Counters of the store inside one process. No call awaits between reading and writing, so each call is atomic. */
import type { Clock } from '../../kernel/base/clock.ts'
import {
  COUNTER_TTL_SECONDS,
  type Counters,
  checkCounted,
  checkCounterName,
  checkCounterOwner,
  checkGauge,
  checkTakes,
  countsByName,
  DAY_MS,
  dayOf,
  takenFrom,
  withCleared,
} from '../../kernel/store/counters.ts'

/** Numbers of one tenant, by name. */
type Numbers = Map<string, number>

/** Numbers of one day, by tenant. */
interface Day {
  readonly counts: Map<string, Numbers>
  readonly cleared: Map<string, Numbers>
}

const DAYS_KEPT = (COUNTER_TTL_SECONDS * 1_000) / DAY_MS

export class MemoryCounters implements Counters {
  readonly #clock: Clock
  readonly #days = new Map<number, Day>()
  readonly #gauges = new Map<string, Numbers>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async take(tenantId: string, takes: Parameters<Counters['take']>[1]) {
    checkCounterOwner(tenantId)
    checkTakes(takes)
    const nowMs = this.#nowMs()
    const day = dayOf(nowMs)
    const counts = this.#days.get(day)?.counts.get(tenantId)
    const taken = takenFrom(
      takes.map(({ name }) => counts?.get(name) ?? 0),
      takes,
    )
    if (taken.isAllowed) {
      for (const [index, { name, amount }] of takes.entries()) {
        if (amount > 0) this.#countsOf(day, tenantId).set(name, taken.usages[index] as number)
      }
    }
    return { ...taken, nowMs }
  }

  async read(tenantId: string, name: string) {
    checkCounterOwner(tenantId)
    checkCounterName(name)
    const { today, gauges, nowMs } = await this.readAll(tenantId)
    return { today: today.get(name) ?? null, gauge: gauges.get(name) ?? null, nowMs }
  }

  async readAll(tenantId: string) {
    checkCounterOwner(tenantId)
    const nowMs = this.#nowMs()
    const today = new Map(this.#days.get(dayOf(nowMs))?.counts.get(tenantId))
    return { today, gauges: new Map(this.#gauges.get(tenantId)), nowMs }
  }

  async put(tenantId: string, name: string, value: number) {
    checkCounterOwner(tenantId)
    checkGauge(name, value)
    childOf(this.#gauges, tenantId).set(name, value)
    return this.#nowMs()
  }

  async counted(tenantId: string, names: readonly string[]) {
    checkCounted(tenantId, names)
    const nowMs = this.#nowMs()
    const day = dayOf(nowMs)
    const on = (kept: Day | undefined) => {
      const [counts, cleared] = [kept?.counts.get(tenantId), kept?.cleared.get(tenantId)]
      return countsByName(names, (name) => withCleared(counts?.get(name) ?? 0, cleared?.get(name) ?? 0))
    }
    return { today: on(this.#days.get(day)), yesterday: on(this.#days.get(day - 1)), nowMs }
  }

  async clear(tenantId: string, name?: string) {
    checkCounterOwner(tenantId)
    if (name !== undefined) checkCounterName(name)
    const day = this.#days.get(dayOf(this.#nowMs()))
    for (const [counted, count] of day?.counts.get(tenantId) ?? []) {
      if (name !== undefined && counted !== name) continue
      const cleared = childOf((day as Day).cleared, tenantId)
      cleared.set(counted, withCleared(count, cleared.get(counted) ?? 0))
    }
    for (const owners of [day?.counts, this.#gauges]) {
      if (name === undefined) owners?.delete(tenantId)
      else owners?.get(tenantId)?.delete(name)
    }
  }

  purge(tenantId: string): void {
    const ofDays = [...this.#days.values()].flatMap(({ counts, cleared }) => [counts, cleared])
    for (const owners of [...ofDays, this.#gauges]) owners.delete(tenantId)
  }

  count(tenantId: string): number {
    const all = [...[...this.#days.values()].map(({ counts }) => counts), this.#gauges]
    return all.reduce((sum, owners) => sum + (owners.get(tenantId)?.size ?? 0), 0)
  }

  close(): void {
    this.#days.clear()
    this.#gauges.clear()
  }

  #nowMs(): number {
    return this.#clock.now().getTime()
  }

  #countsOf(day: number, tenantId: string): Numbers {
    if (!this.#days.has(day)) {
      for (const old of this.#days.keys()) if (old < day - DAYS_KEPT) this.#days.delete(old)
      this.#days.set(day, { counts: new Map(), cleared: new Map() })
    }
    return childOf((this.#days.get(day) as Day).counts, tenantId)
  }
}

function childOf(owners: Map<string, Numbers>, tenantId: string): Numbers {
  let numbers = owners.get(tenantId)
  if (!numbers) {
    numbers = new Map()
    owners.set(tenantId, numbers)
  }
  return numbers
}
