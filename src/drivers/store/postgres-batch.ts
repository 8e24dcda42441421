/**
 * Combines many calls of `take` into one call of `take_counters` (postgres-tables.ts), and derives the result of each
 * call.
 *
 * All statements order counters by tenant and name, so that two statements cannot deadlock.
 */
import { type Take, type Taken, tooFar } from '../../kernel/store/counters.ts'

const ALLOWED = '1'
const TOO_FAR = '-1'
const NO_LIMIT = -1
const ONE_BY_ONE = -1

/** A call of `take` that waits for its result. */
export interface Call {
  readonly tenantId: string
  readonly takes: readonly Take[]
  readonly resolve: (taken: Taken) => void
  readonly reject: (error: unknown) => void
  isLate: boolean
}

/** Combined request of all calls of a statement to one counter. */
interface RequestedCounter {
  readonly tenantId: string
  readonly name: string
  total: number
  ceiling: number
  place: number
  count: number
}

interface BatchResult {
  readonly now_ms: number
  readonly counts_before: string
  /** Null if all calls are allowed. */
  readonly verdicts: string | null
}

export interface Batch {
  /** The parameters of `take_counters` after the clock's offset. */
  readonly values: readonly unknown[]
  settle(result: BatchResult): void
}

export function batchOf(calls: readonly Call[]): Batch {
  const counters = countersOf(calls)
  const requested = [...counters.values()].sort(byTenantAndName)
  for (const [index, counter] of requested.entries()) counter.place = index + 1
  const wants = calls.flatMap(({ tenantId, takes }, index) =>
    takes.map(({ name, amount, limit }) => ({
      caller: index + 1,
      counter: counterIn(counters, tenantId, name).place,
      amount,
      limit: limitOf(limit),
    })),
  )
  return {
    values: [
      requested.map(({ tenantId }) => tenantId),
      requested.map(({ name }) => name),
      requested.map(({ total }) => total),
      requested.map(({ ceiling }) => ceiling),
      wants.map(({ caller }) => caller),
      wants.map(({ counter }) => counter),
      wants.map(({ amount }) => amount),
      wants.map(({ limit }) => limit),
    ],
    settle({ now_ms: nowMs, counts_before: before, verdicts }) {
      for (const [index, count] of before.split(',').entries())
        (requested[index] as RequestedCounter).count = Number(count)
      const verdictList = verdicts?.split(',')
      for (const [index, call] of calls.entries()) settle(call, counters, verdictList?.[index] ?? ALLOWED, nowMs)
    },
  }
}

const keyOf = (tenantId: string, name: string): string => `${name}\0${tenantId}`

const counterIn = (counters: ReadonlyMap<string, RequestedCounter>, tenantId: string, name: string): RequestedCounter =>
  counters.get(keyOf(tenantId, name)) as RequestedCounter

function countersOf(calls: readonly Call[]): Map<string, RequestedCounter> {
  const counters = new Map<string, RequestedCounter>()
  for (const { tenantId, takes } of calls) {
    for (const { name, amount, limit } of takes) {
      const key = keyOf(tenantId, name)
      let requested = counters.get(key)
      if (!requested) {
        requested = { tenantId, name, total: 0, ceiling: Number.MAX_SAFE_INTEGER, place: 0, count: 0 }
        counters.set(key, requested)
      }
      if (amount === 0) continue
      requested.total = Math.min(requested.total + amount, Number.MAX_SAFE_INTEGER)
      const ceiling = limit === null ? Number.MAX_SAFE_INTEGER : Math.floor(limit)
      // A total at the maximum may have been truncated.
      const isFar = requested.total === Number.MAX_SAFE_INTEGER
      requested.ceiling = takes.length > 1 || isFar ? ONE_BY_ONE : Math.min(requested.ceiling, ceiling)
    }
  }
  return counters
}

/** Counts are integers, so the limit is rounded down. A limit above the maximum count is none. */
const limitOf = (limit: number | null): number =>
  limit === null || limit > Number.MAX_SAFE_INTEGER ? NO_LIMIT : Math.floor(limit)

const byTenantAndName = (a: RequestedCounter, b: RequestedCounter): number =>
  compare(a.tenantId, b.tenantId) || compare(a.name, b.name)

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

/**
 * Calls are settled in the order in which they were decided, so that each call finds the counters left by the former
 * one.
 */
function settle(call: Call, counters: ReadonlyMap<string, RequestedCounter>, verdict: string, nowMs: number): void {
  const { tenantId, takes } = call
  const isAllowed = verdict === ALLOWED
  const usages = takes.map(({ name, amount }) => {
    const counter = counterIn(counters, tenantId, name)
    if (isAllowed) counter.count += amount
    return counter.count
  })
  if (verdict !== TOO_FAR) {
    call.resolve({ isAllowed, usages, nowMs })
    return
  }
  const far = takes.find(({ amount }, index) => !Number.isSafeInteger((usages[index] as number) + amount))
  call.reject(tooFar(far?.name ?? ''))
}
