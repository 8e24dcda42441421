/**
 * The port of daily counters and gauges per tenant, in which quotas are counted. The store checks and adds in one step for all processes,
 * and its clock determines the day. A day's total is counter + cleared, so it only grows; `clear` moves from one to the other in one
 * step. In Redis: `quota:{<tenant>}:<yyyy-mm-dd>:<name>` (48 h after its last write at the earliest), the gauge
 * `quota:{<tenant>}:snap:<name>`, and the hash `quota:{<tenant>}:cleared:<yyyy-mm-dd>`.
 */
import { InvalidRequest } from '../base/errors.ts'
import { isValidPostgresText } from '../database/postgres-text.ts'

export const COUNTER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const DAY_MS = 86_400_000
/** Beyond it, JavaScript numbers are not exact. */
export const MAX_COUNTED = Number.MAX_SAFE_INTEGER
/** After this time the day of the last write and the next day have ended: `counted` finds yesterday's until then. */
export const COUNTER_TTL_SECONDS = 48 * 3_600
const MAX_TENANT_LENGTH = 128

/** One of several amounts that are added together, or not at all. */
export interface Take {
  readonly name: string
  /** A whole number of 0 or more. 0 adds nothing, writes nothing, and is always allowed. */
  readonly amount: number
  /** The maximum of the counter afterwards; null: none. */
  readonly limit: number | null
}

export interface Taken {
  /** False: one of them would have passed its limit, and none was added to. */
  readonly isAllowed: boolean
  /** The counters afterwards, in the order of the call. */
  readonly usages: readonly number[]
  /** By the store's clock; which day was counted into follows from it. */
  readonly nowMs: number
}

export interface Reading {
  /** Null without a counter. */
  readonly today: number | null
  readonly gauge: number | null
  readonly nowMs: number
}

export interface Readings {
  readonly today: ReadonlyMap<string, number>
  readonly gauges: ReadonlyMap<string, number>
  readonly nowMs: number
}

/** Without names that have no count. */
export interface Counted {
  readonly today: ReadonlyMap<string, number>
  readonly yesterday: ReadonlyMap<string, number>
  /** By the store's clock, which determines the days. */
  readonly nowMs: number
}

/** Each method is one step and one round trip. Throws `E_DEPENDENCY_UNAVAILABLE` when the store cannot be reached in time. */
export interface Counters {
  /** Adds to all or to none; names differ from one another. `E_INVALID_REQUEST` if a counter would no longer be exact. */
  take(tenantId: string, takes: readonly Take[]): Promise<Taken>
  read(tenantId: string, name: string): Promise<Reading>
  /** All counters of a tenant today, and its gauges. */
  readAll(tenantId: string): Promise<Readings>
  /** Sets a gauge to any number of 0 or more. Returns the store's time in ms. */
  put(tenantId: string, name: string, value: number): Promise<number>
  /**
   * The totals of each name today and yesterday, including cleared counts: they only grow, up to `MAX_COUNTED`, until the day expires.
   * Yesterday does not expire before the end of today. It may still grow shortly after midnight, by calls that started before.
   */
  counted(tenantId: string, names: readonly string[]): Promise<Counted>
  /** Removes today's counter and the gauge of one name, or of all. The totals stay. */
  clear(tenantId: string, name?: string): Promise<void>
}

export const dayOf = (nowMs: number): number => Math.floor(nowMs / DAY_MS)

/** `2026-11-21` */
export const dateOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)

/** Validates arguments, alike for all drivers. Without a schema, because it runs on every request. */
export function checkTakes(takes: readonly Take[]): void {
  if (takes.length === 0) throw InvalidRequest('a call needs at least one counter')
  const first = takes[0] as Take
  checkTake(first)
  if (takes.length === 1) return
  const names = new Set<string>()
  for (const take of takes) {
    checkTake(take)
    if (names.has(take.name)) throw InvalidRequest(`"${take.name}" is named twice`)
    names.add(take.name)
  }
}

function checkTake({ name, amount, limit }: Take): void {
  checkCounterName(name)
  if (!Number.isSafeInteger(amount) || amount < 0) {
    throw InvalidRequest(`the amount of "${name}" must be a whole number of 0 or more`)
  }
  if (limit !== null && !(limit >= 0 && limit < Number.POSITIVE_INFINITY)) {
    throw InvalidRequest(`the limit of "${name}" must be a number of 0 or more`)
  }
}

export function checkCounterOwner(tenantId: string): void {
  if (tenantId.length === 0 || tenantId.length > MAX_TENANT_LENGTH || !isValidPostgresText(tenantId)) {
    throw InvalidRequest('the owner of a counter must be a valid tenant id')
  }
}

export function checkCounterName(name: string): void {
  if (!COUNTER_NAME.test(name)) throw InvalidRequest(`"${name}" must match ${COUNTER_NAME.source}`)
}

export function checkCounted(tenantId: string, names: readonly string[]): void {
  checkCounterOwner(tenantId)
  for (const name of names) checkCounterName(name)
}

export function checkGauge(name: string, value: number): void {
  checkCounterName(name)
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) {
    throw InvalidRequest(`the value of "${name}" must be a number of 0 or more`)
  }
}

/**
 * Returns the result of a call for these usages. An exceeded limit rejects it before any other error. This is the rule of every
 * driver; drivers that decide in a server implement it in the server's language.
 */
export function takenFrom(usages: readonly number[], takes: readonly Take[]): Omit<Taken, 'nowMs'> {
  const after = takes.map(({ amount }, index) => (usages[index] as number) + amount)
  const isRejected = takes.some(
    ({ amount, limit }, index) => amount > 0 && limit !== null && (after[index] as number) > limit,
  )
  if (isRejected) return { isAllowed: false, usages }
  const far = takes.find((_, index) => !Number.isSafeInteger(after[index]))
  if (far) throw tooFar(far.name)
  return { isAllowed: true, usages: after }
}

export const tooFar = (name: string) => InvalidRequest(`"${name}" would count beyond ${MAX_COUNTED}`)

/** A cleared counter may reach the maximum again; the total stays at the maximum. */
export const withCleared = (count: number, cleared: number): number => Math.min(count + cleared, MAX_COUNTED)

/** Without names that have no count. */
export function countsByName(names: readonly string[], countOf: (name: string, place: number) => number) {
  return new Map(names.map((name, place) => [name, countOf(name, place)] as const).filter(([, count]) => count > 0))
}
