/**
 * Cached flags of one tenant.
 *
 * 1. Of several loads of a flag, the one that started last is kept.
 * 2. At the limit, unknown flags are evicted first, because any caller can request them. After the eviction of an existing flag, not all
 *    flags are known.
 * 3. If all flags were loaded, any other flag does not exist.
 */
import type { TenancyError } from '../../../kernel/base/errors.ts'
import type { PreparedRule } from '../model/rollout.ts'
import type { Known } from './known-tenants.ts'

/** A cached flag for an evaluation. */
export interface Found {
  readonly rule: PreparedRule | undefined
  /** Reason why the database could not be read; then `rule` is the last known one. */
  readonly failure?: TenancyError
  /** False if no value was known. */
  readonly isKnown: boolean
}

export interface Entry extends Found {
  /** Number of the load, in the order of starts. */
  readonly load: number
  readonly at: number
  /** The period without a gap in the received changes in which it was loaded. */
  readonly period: number
  /** Time after which it is loaded again while it is served. */
  readonly dueAt: number
  isDoubtful: boolean
}

/** All flags of a tenant; undefined unless all are known. */
export interface Whole {
  readonly found: readonly Found[] | undefined
  readonly failure?: TenancyError
}

/** Start of a load. */
export interface StartedLoad {
  readonly load: number
  readonly at: number
  readonly generation: number
  readonly period: number
}

export class TenantFlags implements Known {
  readonly entries = new Map<string, Entry>()
  readonly loading = new Map<string, Promise<Found>>()
  loadingWhole: Promise<Whole> | undefined
  /** Incremented by every received change. */
  generation = 0
  wasRequested = true
  readonly #max: number
  readonly #missing = new Set<string>()
  #whole: StartedLoad | undefined

  constructor(max: number) {
    this.#max = max
  }

  /** The load of all flags; undefined unless all are known. */
  get whole(): StartedLoad | undefined {
    return this.#whole
  }

  /** Existing flags. */
  present(): readonly Entry[] {
    return [...this.entries.values()].filter(({ rule }) => rule !== undefined)
  }

  /** Returns the number of added entries. */
  put(key: string, entry: Entry): number {
    const before = this.entries.get(key)
    if (before && before.load > entry.load) return 0
    const size = this.entries.size
    this.entries.set(key, entry)
    if (entry.rule) this.#missing.delete(key)
    else this.#missing.add(key)
    if (this.entries.size > this.#max) this.#dropOne()
    return this.entries.size - size
  }

  /** Stores the result of a load of all flags. Returns as `put`. */
  putAll(started: StartedLoad, found: readonly (readonly [key: string, entry: Entry])[], absent: () => Entry): number {
    if (!this.#whole || this.#whole.load < started.load) this.#whole = started
    const keys = new Set(found.map(([key]) => key))
    const size = this.entries.size
    for (const key of [...this.entries.keys()]) if (!keys.has(key)) this.put(key, absent())
    for (const [key, entry] of found) this.put(key, entry)
    return this.entries.size - size
  }

  /** @param keys changed flags; undefined: any */
  doubt(keys: readonly string[] | undefined): void {
    this.generation++
    this.forgetLoads()
    const doubted = keys ? keys.map((key) => this.entries.get(key)) : this.entries.values()
    for (const entry of doubted) if (entry) entry.isDoubtful = true
  }

  /** Later callers do not wait for loads in progress. */
  forgetLoads(): void {
    this.loading.clear()
    this.loadingWhole = undefined
  }

  #dropOne(): void {
    const [missing] = this.#missing
    const key = missing ?? this.entries.keys().next().value ?? ''
    if (missing === undefined) this.#whole = undefined
    this.#missing.delete(key)
    this.entries.delete(key)
  }
}

export const lastKnown = (entry: Entry | undefined, failure: TenancyError): Found => ({
  rule: entry?.rule,
  isKnown: entry !== undefined,
  failure,
})
