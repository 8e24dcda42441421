/**
 * Caches flag rules by tenant and key, including unknown flags; never results of evaluations.
 *
 *               load                       TTL passed, changes received: served, and loaded in the background
 *   unknown ──────────────► fresh ─────────────────────────────────────────────────────────────► fresh
 *                           │   ▲
 *   a change was received   │   │ load
 *   or made; no listener    ▼   │
 *   for 5 s; a gap          doubtful ──(database unavailable)──► last known value, reported as stale
 *
 * 1. A doubtful flag is loaded before it is served, from the database and not from the store.
 * 2. A load that started before a change leaves the flag doubtful, and later callers do not wait for it.
 * 3. Concurrent callers share one load. All loads of a tick are one query (reads.ts).
 * 4. After a failed load, no caller waits for a second; then one call tries for all. Values past their TTL are stale.
 * 5. All flags of a tenant are known together until one of them changes, for a TTL at most.
 * 6. Entries are removed only for space, because an outage may last longer than any TTL.
 * 7. The store is trusted while its value cannot be outdated, otherwise for 5 s or not at all (shared.ts). While the database is
 *    unavailable, its values are used.
 */

import { OutageBackoff } from '../../../kernel/base/backoff.ts'
import { withoutDeadline } from '../../../kernel/base/deadline.ts'
import type { TenancyError } from '../../../kernel/base/errors.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { type FlagRule, prepared } from '../model/rollout.ts'
import type { FlagChanges } from './changes.ts'
import { type Entry, type Found, lastKnown, type StartedLoad, TenantFlags, type Whole } from './known-flags.ts'
import { KnownTenants } from './known-tenants.ts'
import { type FlagReads, unreadable } from './reads.ts'
import { RecentChanges } from './recent-changes.ts'
import type { Shared, SharedFlags } from './shared.ts'

const KNOWN_TENANTS = 10_000
const KNOWN_FLAGS = 200_000
/** Limit for each tenant, so that requests for unknown flags of one tenant do not evict other tenants. */
const KNOWN_FLAGS_OF_TENANT = 5_000
const DEAF_TTL_MS = 5_000
/** Precision of a TTL. */
const TICK_MS = 100
/** Load of an unknown flag: any other load is newer. */
const NEVER: StartedLoad = { load: 0, at: Number.NEGATIVE_INFINITY, generation: -1, period: -1 }

export interface FlagCacheDependencies {
  readonly kernel: Kernel
  readonly reads: FlagReads
  /** Present if the store is faster than the database. */
  readonly shared: SharedFlags | undefined
  readonly ttlSeconds: number
  readonly changes: Pick<FlagChanges, 'isHearing'>
}

export class FlagCache {
  readonly #dependencies: FlagCacheDependencies
  readonly #ttlMs: number
  readonly #tenants = new KnownTenants<TenantFlags>({ tenants: KNOWN_TENANTS, flags: KNOWN_FLAGS })
  readonly #changed = new RecentChanges()
  #period = 0
  #hearingSince = Number.POSITIVE_INFINITY
  #loads = 0
  /** Cached time; negative if the clock must be read. */
  #now = -1
  readonly #outage = new OutageBackoff()
  /** Error of the last failed load. */
  #failure = unreadable()

  constructor(dependencies: FlagCacheDependencies) {
    this.#dependencies = dependencies
    this.#ttlMs = dependencies.ttlSeconds * 1_000
  }

  /** The flag if it can be served without a load. */
  peek(tenantId: string, key: string): Found | undefined {
    const flags = this.#tenants.get(tenantId)
    if (flags === undefined) return undefined
    const entry = flags.entries.get(key)
    if (entry === undefined || entry.isDoubtful || entry.period !== this.#period) return undefined
    if (!this.#dependencies.changes.isHearing) return this.#isRecent(entry) ? entry : undefined
    if (this.#now < 0) this.#tick()
    if (this.#now < entry.dueAt) return entry
    if (this.#outage.isActive) return undefined
    this.#loadBeside(tenantId, key, flags)
    return entry
  }

  /** Loads a flag that `peek` did not return. Throws only errors of the store's policy. */
  async find(tenantId: string, key: string): Promise<Found> {
    const flags = this.#flagsOf(tenantId)
    const entry = flags.entries.get(key)
    if (!entry || !this.#outage.isActive) return this.#load(tenantId, key, flags)
    if (this.#outage.shouldTry) this.#loadBeside(tenantId, key, flags)
    return lastKnown(entry, this.#failure)
  }

  /** Last known value during an outage of the database. */
  lastKnown(tenantId: string, key: string, failure: TenancyError): Found {
    return lastKnown(this.#tenants.get(tenantId)?.entries.get(key), failure)
  }

  /** All flags of a tenant; during an outage of the database, the last known ones. */
  async all(tenantId: string): Promise<Whole> {
    const flags = this.#flagsOf(tenantId)
    if (flags.whole && this.#isCurrent(flags.whole, flags)) return { found: flags.present() }
    if (!this.#outage.shouldTry) return lastKnownWhole(flags, this.#failure)
    const loading = flags.loadingWhole ?? withoutDeadline(() => this.#loadWhole(tenantId, flags))
    flags.loadingWhole = loading
    return loading
  }

  /** Last known values during an outage of the database. */
  lastKnownWhole(tenantId: string, failure: TenancyError): Whole {
    return lastKnownWhole(this.#tenants.get(tenantId), failure)
  }

  /** Marks flags of a tenant as doubtful: these, or all. */
  doubt(tenantId: string, keys?: readonly string[]): void {
    this.#changed.record(tenantId)
    this.#tenants.get(tenantId)?.doubt(keys)
  }

  /** Marks everything as doubtful after a gap in the received changes. */
  doubtAll(): void {
    this.#period++
    this.#hearingSince = performance.now()
    this.#outage.answered()
    for (const flags of this.#tenants.all()) flags.forgetLoads()
  }

  #isRecent({ at }: Entry): boolean {
    return performance.now() - at < Math.min(DEAF_TTL_MS, this.#ttlMs)
  }

  /** Reading the clock takes a fifth of an evaluation, so it is read ten times a second while flags are evaluated. */
  #tick(): void {
    this.#now = performance.now()
    setTimeout(() => {
      this.#now = -1
    }, TICK_MS).unref()
  }

  #flagsOf(tenantId: string): TenantFlags {
    const known = this.#tenants.get(tenantId)
    if (known) return known
    const flags = new TenantFlags(KNOWN_FLAGS_OF_TENANT)
    this.#tenants.add(tenantId, flags)
    return flags
  }

  /** Loads in the background; concurrent callers start no second load. */
  #loadBeside(tenantId: string, key: string, flags: TenantFlags): void {
    if (flags.loading.has(key)) return
    this.#load(tenantId, key, flags).catch((error) =>
      this.#dependencies.kernel.log.debug({ err: error, tenantId, key }, 'a flag could not be loaded again'),
    )
  }

  #load(tenantId: string, key: string, flags: TenantFlags): Promise<Found> {
    const running = flags.loading.get(key)
    if (running) return running
    const started: Promise<Found> = withoutDeadline(() => this.#loaded(tenantId, key, flags)).finally(() => {
      if (flags.loading.get(key) === started) flags.loading.delete(key)
    })
    flags.loading.set(key, started)
    return started
  }

  async #loaded(tenantId: string, key: string, flags: TenantFlags): Promise<Found> {
    const { reads, shared } = this.#dependencies
    const started = this.#begin(flags)
    const before = flags.entries.get(key)
    const believedMs = this.#believedMs(tenantId, before)
    const kept = believedMs > 0 ? await this.#readShared(tenantId, key, before) : undefined
    if (kept) return this.#keep(tenantId, flags, key, this.#entryOf(kept.rule, started, flags, believedMs))
    if (!this.#outage.shouldTry) return this.#better(tenantId, key, flags, this.#failure)
    try {
      const rule = await this.#read(reads.one(tenantId, key))
      const entry = this.#keep(tenantId, flags, key, this.#entryOf(rule, started, flags))
      if (shared && !entry.isDoubtful) void shared.fill(tenantId, key, rule, started.at)
      return entry
    } catch (error) {
      return this.#better(tenantId, key, flags, this.#failed(error))
    }
  }

  /** Time for which the store's value of a flag is trusted, in ms; 0: the store is skipped. */
  #believedMs(tenantId: string, entry: Entry | undefined): number {
    const { shared, changes } = this.#dependencies
    if (!shared || !changes.isHearing || (entry && !this.#isUndoubted(entry))) return 0
    const outdatedAt = performance.now() - shared.outdatedMs
    if (this.#changed.at(tenantId) > outdatedAt) return 0
    if (this.#hearingSince <= outdatedAt) return this.#ttlMs
    return entry ? 0 : Math.min(DEAF_TTL_MS, this.#ttlMs)
  }

  /** An unavailable store does not fail a load of a cached flag. */
  async #readShared(tenantId: string, key: string, entry: Entry | undefined): Promise<Shared | undefined> {
    try {
      return await this.#dependencies.shared?.get(tenantId, key)
    } catch (error) {
      if (!entry) throw error
      return undefined
    }
  }

  /** During an outage of the database: the cached value, otherwise the store's, otherwise none. */
  async #better(tenantId: string, key: string, flags: TenantFlags, failure: TenancyError): Promise<Found> {
    const known = flags.entries.get(key)
    const kept = known ? undefined : await this.#dependencies.shared?.get(tenantId, key)
    if (!kept) return lastKnown(known, failure)
    return lastKnown(this.#keep(tenantId, flags, key, this.#entryOf(kept.rule, NEVER, flags)), failure)
  }

  async #loadWhole(tenantId: string, flags: TenantFlags): Promise<Whole> {
    const started = this.#begin(flags)
    try {
      const rules = await this.#read(this.#dependencies.reads.all(tenantId))
      const entryOf = (rule?: FlagRule) => this.#entryOf(rule, started, flags)
      const found = rules.map((rule) => [rule.key, entryOf(rule)] as const)
      this.#tenants.grown(tenantId, flags, flags.putAll(started, found, entryOf))
      return { found: found.map(([, entry]) => entry) }
    } catch (error) {
      return lastKnownWhole(flags, this.#failed(error))
    } finally {
      if (started.generation === flags.generation && started.period === this.#period) flags.loadingWhole = undefined
    }
  }

  #isCurrent({ at, generation, period }: StartedLoad, flags: TenantFlags): boolean {
    if (generation !== flags.generation || period !== this.#period) return false
    const heldMs = this.#dependencies.changes.isHearing ? this.#ttlMs : Math.min(DEAF_TTL_MS, this.#ttlMs)
    return performance.now() - at < heldMs
  }

  #isUndoubted({ isDoubtful, period }: Entry): boolean {
    return !isDoubtful && period === this.#period
  }

  #begin({ generation }: TenantFlags): StartedLoad {
    return { load: ++this.#loads, at: performance.now(), generation, period: this.#period }
  }

  async #read<T>(result: Promise<T>): Promise<T> {
    this.#outage.trying()
    const read = await result
    this.#outage.answered()
    return read
  }

  #failed(error: unknown): TenancyError {
    if (this.#outage.failed()) {
      this.#dependencies.kernel.log.warn({ err: error }, 'flags could not be read; serving cached flags')
    }
    this.#failure = unreadable(error)
    return this.#failure
  }

  #entryOf(
    rule: FlagRule | undefined,
    { load, at, generation, period }: StartedLoad,
    flags: TenantFlags,
    believedMs = this.#ttlMs,
  ): Entry {
    const isDoubtful = generation !== flags.generation || period !== this.#period
    return { rule: rule && prepared(rule), isKnown: true, load, at, period, dueAt: at + believedMs, isDoubtful }
  }

  /** Returns the newest entry, also if a later load was faster. */
  #keep(tenantId: string, flags: TenantFlags, key: string, entry: Entry): Entry {
    this.#tenants.grown(tenantId, flags, flags.put(key, entry))
    return entry
  }
}

function lastKnownWhole(flags: TenantFlags | undefined, failure: TenancyError): Whole {
  return { found: flags?.whole && flags.present().map((entry) => lastKnown(entry, failure)), failure }
}
