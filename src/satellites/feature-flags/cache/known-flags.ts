/**
 * What a process knows of one tenant's flags, and what it says of them.
 *
 * 1. Of loads of one flag, the one that began last is kept.
 * 2. There are never more than `max`. Of flags that are not there the first to come goes first: anybody can ask for those. When
 *    one has to go that is there, not all are known any more.
 * 3. Where all were loaded, what is not among them is known not to be there.
 */
import type { TenancyError } from '../../../kernel/base/errors.ts'
import type { PreparedRule } from '../model/rollout.ts'
import type { Known } from './known-tenants.ts'

/** What is said of a flag. */
export interface Found {
  readonly rule: PreparedRule | undefined
  /** Why the database could not be asked; then `rule` is the last known one. */
  readonly failure?: TenancyError
  /** False when nothing was known either. */
  readonly isKnown: boolean
}

export interface Entry extends Found {
  /** Which load it is from, in the order in which they began. */
  readonly load: number
  readonly at: number
  /** The time without a gap in what is heard that it was loaded in. */
  readonly period: number
  /** From when on it is loaded again while it is served. */
  readonly dueAt: number
  isDoubtful: boolean
}

/** All of a tenant; nothing where not all are known. */
export interface Whole {
  readonly found: readonly Found[] | undefined
  readonly failure?: TenancyError
}

/** Where a load began. */
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
  /** Rises with every change that is heard of. */
  generation = 0
  wasRequested = true
  readonly #max: number
  readonly #missing = new Set<string>()
  #whole: StartedLoad | undefined

  constructor(max: number) {
    this.#max = max
  }

  /** The load that all flags were last known by; undefined: not all are known. */
  get whole(): StartedLoad | undefined {
    return this.#whole
  }

  /** What is known to be there. */
  present(): readonly Entry[] {
    return [...this.entries.values()].filter(({ rule }) => rule !== undefined)
  }

  /** Returns how many more are known than before. */
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

  /** Puts what one load found of all flags. Answers as `put`. */
  putAll(started: StartedLoad, found: readonly (readonly [key: string, entry: Entry])[], absent: () => Entry): number {
    if (!this.#whole || this.#whole.load < started.load) this.#whole = started
    const keys = new Set(found.map(([key]) => key))
    const size = this.entries.size
    for (const key of [...this.entries.keys()]) if (!keys.has(key)) this.put(key, absent())
    for (const [key, entry] of found) this.put(key, entry)
    return this.entries.size - size
  }

  /** @param keys which have changed; undefined: any */
  doubt(keys: readonly string[] | undefined): void {
    this.generation++
    this.forgetLoads()
    const doubted = keys ? keys.map((key) => this.entries.get(key)) : this.entries.values()
    for (const entry of doubted) if (entry) entry.isDoubtful = true
  }

  /** Nobody who comes from now on waits for a load that is under way. */
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
