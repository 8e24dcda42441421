/**
 * What this process knows of flags: by tenant, then by key, a flag's rule or that there is none; never what came out for anybody.
 *
 *               load                       TTL passed while changes are heard: served, and loaded again beside
 *   unknown ──────────────► fresh ─────────────────────────────────────────────────────────────► fresh
 *                           │   ▲
 *   a change was heard or   │   │ load
 *   made; unheard for 5 s;  ▼   │
 *   a gap in what is heard  doubtful ──(the database is away)──► the last known value, said to be stale
 *
 * 1. What is doubtful is loaded before it is served, from the database and not from the store.
 * 2. A load that began before a change was heard leaves what is doubtful doubtful, and nobody who asks after it waits for it.
 * 3. Of callers who ask for the same there is one load. All loads of a tick are one query (reads.ts).
 * 4. A failed load is the last one for a second: until then nobody waits, and then one tries for all. Whatever should have been
 *    loaded again by then is stale.
 * 5. All flags of a tenant are known together for as long as nothing of them has changed, and for a TTL at most.
 * 6. What was known is never thrown away but for room: an outage may last longer than any TTL.
 * 7. The store is believed for as long as it cannot be wrong, else for 5 s or not at all (shared.ts). While the database
 *    is away, what it has is better than nothing.
 */

import { OutageBackoff } from '../../../kernel/base/backoff.ts'
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
/** So that one tenant does not drive out all others by asking for flags that are not there. */
const KNOWN_FLAGS_OF_TENANT = 5_000
const DEAF_TTL_MS = 5_000
/** How exactly a TTL is kept. */
const TICK_MS = 100
/** For what is known of no load: any other is better. */
const NEVER: StartedLoad = { load: 0, at: Number.NEGATIVE_INFINITY, generation: -1, period: -1 }

export interface FlagCacheDependencies {
  readonly kernel: Kernel
  readonly reads: FlagReads
  /** When the store is worth asking first. */
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
  /** What time it is, roughly; negative when that is to be asked anew. */
  #now = -1
  readonly #outage = new OutageBackoff()
  /** Of the load that failed last. */
  #failure = unreadable()

  constructor(dependencies: FlagCacheDependencies) {
    this.#dependencies = dependencies
    this.#ttlMs = dependencies.ttlSeconds * 1_000
  }

  /** What can be said at once. */
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

  /** Loads what `peek` did not know. Throws only what the policy of the store does. */
  async find(tenantId: string, key: string): Promise<Found> {
    const flags = this.#flagsOf(tenantId)
    const entry = flags.entries.get(key)
    if (!entry || !this.#outage.isActive) return this.#load(tenantId, key, flags)
    if (this.#outage.shouldTry) this.#loadBeside(tenantId, key, flags)
    return lastKnown(entry, this.#failure)
  }

  /** What there is to say while the database is away. */
  lastKnown(tenantId: string, key: string, failure: TenancyError): Found {
    return lastKnown(this.#tenants.get(tenantId)?.entries.get(key), failure)
  }

  /** All flags of a tenant; those that are known when the database is away. */
  async all(tenantId: string): Promise<Whole> {
    const flags = this.#flagsOf(tenantId)
    if (flags.whole && this.#isCurrent(flags.whole, flags)) return { found: flags.present() }
    if (!this.#outage.shouldTry) return lastKnownWhole(flags, this.#failure)
    const loading = flags.loadingWhole ?? this.#loadWhole(tenantId, flags)
    flags.loadingWhole = loading
    return loading
  }

  /** What there is to say of all while the database is away. */
  lastKnownWhole(tenantId: string, failure: TenancyError): Whole {
    return lastKnownWhole(this.#tenants.get(tenantId), failure)
  }

  /** Flags of a tenant have changed: these, or any. */
  doubt(tenantId: string, keys?: readonly string[]): void {
    this.#changed.record(tenantId)
    this.#tenants.get(tenantId)?.doubt(keys)
  }

  /** Changes can be heard (again), and some may have been missed. */
  doubtAll(): void {
    this.#period++
    this.#hearingSince = performance.now()
    this.#outage.answered()
    for (const flags of this.#tenants.all()) flags.forgetLoads()
  }

  #isRecent({ at }: Entry): boolean {
    return performance.now() - at < Math.min(DEAF_TTL_MS, this.#ttlMs)
  }

  /** Asking for the time costs a fifth of an evaluation; so it is asked for ten times a second, while somebody asks for flags. */
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

  /** Whoever asks meanwhile does not begin another. */
  #loadBeside(tenantId: string, key: string, flags: TenantFlags): void {
    if (flags.loading.has(key)) return
    this.#load(tenantId, key, flags).catch((error) =>
      this.#dependencies.kernel.log.debug({ err: error, tenantId, key }, 'a flag could not be loaded again'),
    )
  }

  #load(tenantId: string, key: string, flags: TenantFlags): Promise<Found> {
    const running = flags.loading.get(key)
    if (running) return running
    const started: Promise<Found> = this.#loaded(tenantId, key, flags).finally(() => {
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

  /** For how long what the store has of a flag may be believed; 0: it is not worth asking. */
  #believedMs(tenantId: string, entry: Entry | undefined): number {
    const { shared, changes } = this.#dependencies
    if (!shared || !changes.isHearing || (entry && !this.#isUndoubted(entry))) return 0
    const outdatedAt = performance.now() - shared.outdatedMs
    if (this.#changed.at(tenantId) > outdatedAt) return 0
    if (this.#hearingSince <= outdatedAt) return this.#ttlMs
    return entry ? 0 : Math.min(DEAF_TTL_MS, this.#ttlMs)
  }

  /** That the store is away is nothing to a flag that is known already. */
  async #readShared(tenantId: string, key: string, entry: Entry | undefined): Promise<Shared | undefined> {
    try {
      return await this.#dependencies.shared?.get(tenantId, key)
    } catch (error) {
      if (!entry) throw error
      return undefined
    }
  }

  /** While the database is away: what is known here, else in the store, else nothing. */
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
      this.#dependencies.kernel.log.warn({ err: error }, 'flags cannot be read; what is known is served')
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

  /** For whoever waits for it, also when a later load was quicker. */
  #keep(tenantId: string, flags: TenantFlags, key: string, entry: Entry): Entry {
    this.#tenants.grown(tenantId, flags, flags.put(key, entry))
    return entry
  }
}

function lastKnownWhole(flags: TenantFlags | undefined, failure: TenancyError): Whole {
  return { found: flags?.whole && flags.present().map((entry) => lastKnown(entry, failure)), failure }
}
