/**
 * Counters of a day, and gauges, per tenant: what quotas are kept in. They are a part of the store, because only the
 * store can check and add in one step for all processes, and because the day is the store's: of processes with differing clocks
 * all count into the same one.
 *
 *   today     one counter per tenant, name and UTC day; whole numbers; gone 48 h after its last write at the earliest
 *   cleared   what was taken away of that counter by `clear`, in the same step; there at least as long as the counter may be
 *   gauge     one value per tenant and name, as it was put; it stays
 *
 * What a day has counted is counter + cleared at any instant, so it only grows: whoever reports it need not know of resets.
 *
 * In Redis: `quota:{<tenant>}:<yyyy-mm-dd>:<name>`, `quota:{<tenant>}:snap:<name>`, and the hash `quota:{<tenant>}:cleared:<yyyy-mm-dd>`.
 */
import { InvalidRequest } from '../base/errors.ts'
import { isStorable } from '../base/postgres-text.ts'

export const COUNTER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const DAY_MS = 86_400_000
/** Beyond this a JavaScript number no longer tells one count from the next. */
export const MAX_COUNTED = Number.MAX_SAFE_INTEGER
/** So long after its last write a day is over, and the next one too: `counted` finds yesterday's as long as it may be asked for. */
export const COUNTER_TTL_SECONDS = 48 * 3_600
const MAX_TENANT_LENGTH = 128

/** One of several that are added to all together, or not at all. */
export interface Take {
  readonly name: string
  /** A whole number of 0 or more. 0 adds nothing, writes nothing, and is always allowed. */
  readonly amount: number
  /** What the counter may be at most afterwards; null: whatever it comes to. */
  readonly limit: number | null
}

export interface Taken {
  /** False: one of them would have passed its limit, and none was added to. */
  readonly isAllowed: boolean
  /** What the counters are after it, in the order they were asked in. */
  readonly usages: readonly number[]
  /** By the store's clock; which day was counted into follows from it. */
  readonly nowMs: number
}

export interface Reading {
  /** Null: there is none. */
  readonly today: number | null
  readonly gauge: number | null
  readonly nowMs: number
}

export interface Readings {
  readonly today: ReadonlyMap<string, number>
  readonly gauges: ReadonlyMap<string, number>
  readonly nowMs: number
}

/** A name of which nothing was counted is left out. */
export interface Counted {
  readonly today: ReadonlyMap<string, number>
  readonly yesterday: ReadonlyMap<string, number>
  /** By the store's clock; which days they are follows from it. */
  readonly nowMs: number
}

/** Each method is one step and one round trip. Throws `E_DEPENDENCY_UNAVAILABLE` when the store cannot be reached in time. */
export interface Counters {
  /** Adds to all or to none; names differ from one another. `E_INVALID_REQUEST` when one could not be told exactly any more. */
  take(tenantId: string, takes: readonly Take[]): Promise<Taken>
  read(tenantId: string, name: string): Promise<Reading>
  /** Whatever is counted of a tenant today, and its gauges. */
  readAll(tenantId: string): Promise<Readings>
  /** Sets a gauge to any number of 0 or more. Returns the store's time in ms. */
  put(tenantId: string, name: string, value: number): Promise<number>
  /**
   * All that was ever counted of each name today and the day before, whatever was cleared since: it only grows, up to
   * `MAX_COUNTED`, until the day expires, which yesterday does not before today is over. Yesterday's may still grow in the moments
   * after midnight: what was begun before is then written.
   */
  counted(tenantId: string, names: readonly string[]): Promise<Counted>
  /** Removes today's counter and the gauge; of one name, or of all. What was counted stays counted. */
  clear(tenantId: string, name?: string): Promise<void>
}

export const dayOf = (nowMs: number): number => Math.floor(nowMs / DAY_MS)

/** `2026-11-21` */
export const dateOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)

/** What each driver asks of its arguments, so that all refuse the same. On the path of every request, so without a schema. */
export function checkTakes(takes: readonly Take[]): void {
  if (takes.length === 0) throw InvalidRequest('nothing is named that could be counted')
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
    throw InvalidRequest(`the amount of "${name}" is not a whole number of 0 or more`)
  }
  if (limit !== null && !(limit >= 0 && limit < Number.POSITIVE_INFINITY)) {
    throw InvalidRequest(`the limit of "${name}" is not a number of 0 or more`)
  }
}

export function checkCounterOwner(tenantId: string): void {
  if (tenantId.length === 0 || tenantId.length > MAX_TENANT_LENGTH || !isStorable(tenantId)) {
    throw InvalidRequest('whose counter it is says no tenant that could be kept')
  }
}

export function checkCounterName(name: string): void {
  if (!COUNTER_NAME.test(name)) throw InvalidRequest(`"${name}" does not match ${COUNTER_NAME.source}`)
}

export function checkCounted(tenantId: string, names: readonly string[]): void {
  checkCounterOwner(tenantId)
  for (const name of names) checkCounterName(name)
}

export function checkGauge(name: string, value: number): void {
  checkCounterName(name)
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) {
    throw InvalidRequest(`the value of "${name}" is not a number of 0 or more`)
  }
}

/**
 * What becomes of a call that finds these usages. A limit that would be passed refuses it, whatever else is wrong with it.
 * The law for every driver; those that decide inside of a server say the same in its language.
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

/** A counter may be cleared and reach the end again; all that was counted of it stands still there. */
export const withCleared = (count: number, cleared: number): number => Math.min(count + cleared, MAX_COUNTED)

/** Of those of which anything was counted. */
export function countsByName(names: readonly string[], countOf: (name: string, place: number) => number) {
  return new Map(names.map((name, place) => [name, countOf(name, place)] as const).filter(([, count]) => count > 0))
}
