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
 * 3. Of loads of one flag, the one that began last is kept.
 * 4. Of callers who ask for the same there is one load. All loads of a tick are one query (flag-reads.ts).
 * 5. A failed load is the last one for a second: until then nobody waits, and then one tries for all.
 * 6. All flags of a tenant are known together for as long as nothing of them has changed, and for a TTL at most.
 * 7. What was known is never thrown away but for room: an outage may last longer than any TTL.
 */
import { DependencyUnavailable, type TenancyError } from '../../kernel/errors.ts'
import { inTime } from '../../kernel/in-time.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { Outage } from '../../kernel/outage.ts'
import type { FlagChanges } from './flag-changes.ts'
import { type FlagReads, READ_TIMEOUT_MS } from './flag-reads.ts'
import {
  type Begun,
  type Entry,
  type Found,
  type KnownWhole,
  lastKnown,
  type TenantFlags,
  type Whole,
} from './known-flags.ts'
import { KnownTenants } from './known-tenants.ts'
import { type FlagRule, prepared } from './rollout.ts'
import type { SharedFlags } from './shared-flags.ts'

const KNOWN_TENANTS = 10_000
const KNOWN_FLAGS = 200_000
/** So that one tenant does not drive out all others by asking for flags that are not there. */
const KNOWN_FLAGS_OF_TENANT = 5_000
const DEAF_TTL_MS = 5_000
const RETRY_MS = 1_000
/** How exactly a TTL is kept. */
const TICK_MS = 100

export interface FlagCacheParts {
  readonly kernel: Kernel
  readonly reads: FlagReads
  /** When the store is worth asking first. */
  readonly shared: SharedFlags | undefined
  readonly ttlSeconds: number
  readonly changes: Pick<FlagChanges, 'isHearing'>
}

export class FlagCache {
  readonly #parts: FlagCacheParts
  readonly #ttlMs: number
  readonly #tenants = new KnownTenants<TenantFlags>({ tenants: KNOWN_TENANTS, flags: KNOWN_FLAGS })
  #period = 0
  #loads = 0
  /** What time it is, roughly; negative when that is to be asked anew. */
  #now = -1
  readonly #outage = new Outage()
  /** Of the load that failed last. */
  #failure = unavailable()

  constructor(parts: FlagCacheParts) {
    this.#parts = parts
    this.#ttlMs = parts.ttlSeconds * 1_000
  }

  /** What can be said at once. */
  peek(tenantId: string, key: string): Found | undefined {
    const flags = this.#tenants.get(tenantId)
    if (flags === undefined) return undefined
    const entry = flags.entries.get(key)
    if (entry === undefined || entry.isDoubtful || entry.period !== this.#period) return undefined
    if (!this.#parts.changes.isHearing) return this.#isRecent(entry) ? entry : undefined
    if (this.#now < 0) this.#tick()
    if (this.#now >= entry.dueAt) this.#renew(tenantId, key, flags, entry)
    return entry
  }

  /** Loads what `peek` did not know. Throws only what the policy of the store does. */
  async find(tenantId: string, key: string): Promise<Found> {
    const flags = this.#flagsOf(tenantId)
    const entry = flags.entries.get(key)
    if (!entry || !this.#outage.isOn) return this.#load(tenantId, key, flags)
    if (this.#outage.mayTry) this.#loadBeside(tenantId, key, flags)
    return lastKnown(entry, this.#failure)
  }

  /** What there is to say while the database is away. */
  lastKnown(tenantId: string, key: string, failure: TenancyError): Found {
    return lastKnown(this.#tenants.get(tenantId)?.entries.get(key), failure)
  }

  /** All flags of a tenant; those that are known when the database is away. */
  async all(tenantId: string): Promise<Whole> {
    const flags = this.#flagsOf(tenantId)
    if (flags.whole && this.#isCurrent(flags.whole, flags)) return flags.whole
    if (!this.#outage.mayTry) return this.#lastKnownWhole(flags, this.#failure)
    const loading = flags.loadingWhole ?? this.#loadWhole(tenantId, flags)
    flags.loadingWhole = loading
    return loading
  }

  /** Flags of a tenant have changed. */
  doubt(tenantId: string): void {
    const flags = this.#tenants.get(tenantId)
    if (!flags) return
    flags.generation++
    flags.loading.clear()
    flags.loadingWhole = undefined
    for (const entry of flags.entries.values()) entry.isDoubtful = true
  }

  /** Changes can be heard (again), and some may have been missed. */
  doubtAll(): void {
    this.#period++
    this.#outage.answered()
    for (const flags of this.#tenants.all()) {
      flags.loading.clear()
      flags.loadingWhole = undefined
    }
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
    const flags: TenantFlags = { entries: new Map(), loading: new Map(), generation: 0, wasAsked: true }
    this.#tenants.add(tenantId, flags)
    return flags
  }

  #renew(tenantId: string, key: string, flags: TenantFlags, entry: Entry): void {
    entry.dueAt = this.#now + RETRY_MS // whoever asks meanwhile does not begin another
    if (this.#outage.mayTry) this.#loadBeside(tenantId, key, flags)
  }

  #loadBeside(tenantId: string, key: string, flags: TenantFlags): void {
    this.#load(tenantId, key, flags).catch((error) =>
      this.#parts.kernel.log.debug({ err: error, tenantId, key }, 'a flag could not be loaded again'),
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
    const { reads, shared } = this.#parts
    const begun = this.#begin(flags)
    const entry = flags.entries.get(key)
    if (shared && (!entry || this.#isUndoubted(entry))) {
      const kept = await shared.get(tenantId, key)
      if (kept) return this.#keep(tenantId, flags, key, kept.rule, begun)
    }
    if (!this.#outage.mayTry) return lastKnown(entry, this.#failure)
    try {
      const rule = await this.#read(reads.one(tenantId, key))
      const kept = this.#keep(tenantId, flags, key, rule, begun)
      if (shared && !kept.isDoubtful) void shared.fill(tenantId, key, rule, begun.at)
      return kept
    } catch (error) {
      return lastKnown(flags.entries.get(key), this.#failed(error))
    }
  }

  async #loadWhole(tenantId: string, flags: TenantFlags): Promise<Whole> {
    const begun = this.#begin(flags)
    try {
      const rules = await this.#read(this.#parts.reads.all(tenantId))
      const found = rules.map((rule) => this.#keep(tenantId, flags, rule.key, rule, begun))
      if (!flags.whole || flags.whole.begun.load < begun.load) flags.whole = { found, begun }
      return { found }
    } catch (error) {
      return this.#lastKnownWhole(flags, this.#failed(error))
    } finally {
      if (begun.generation === flags.generation && begun.period === this.#period) flags.loadingWhole = undefined
    }
  }

  #lastKnownWhole({ entries }: TenantFlags, failure: TenancyError): Whole {
    return { found: [...entries.values()].map((entry) => lastKnown(entry, failure)), failure }
  }

  #isCurrent({ begun }: KnownWhole, { generation }: TenantFlags): boolean {
    if (begun.generation !== generation || begun.period !== this.#period) return false
    const heldMs = this.#parts.changes.isHearing ? this.#ttlMs : Math.min(DEAF_TTL_MS, this.#ttlMs)
    return performance.now() - begun.at < heldMs
  }

  #isUndoubted({ isDoubtful, period }: Entry): boolean {
    return !isDoubtful && period === this.#period && this.#parts.changes.isHearing
  }

  #begin({ generation }: TenantFlags): Begun {
    return { load: ++this.#loads, at: performance.now(), generation, period: this.#period }
  }

  async #read<T>(answer: Promise<T>): Promise<T> {
    this.#outage.trying()
    const read = await inTime(answer, READ_TIMEOUT_MS, () => unavailable(new Error('the read took too long')))
    this.#outage.answered()
    return read
  }

  #failed(error: unknown): TenancyError {
    if (this.#outage.failed()) {
      this.#parts.kernel.log.warn({ err: error }, 'flags cannot be read; what is known is served')
    }
    this.#failure = DependencyUnavailable.matches(error) ? error : unavailable(error)
    return this.#failure
  }

  /** What was read, for whoever waits for it; it is kept unless a later load was quicker. */
  #keep(tenantId: string, flags: TenantFlags, key: string, rule: FlagRule | undefined, begun: Begun): Entry {
    const { load, at, generation, period } = begun
    const isDoubtful = generation !== flags.generation || period !== this.#period
    const entry: Entry = {
      rule: rule && prepared(rule),
      isKnown: true,
      load,
      at,
      period,
      dueAt: at + this.#ttlMs,
      isDoubtful,
    }
    const { entries } = flags
    const before = entries.get(key)
    if (before && before.load > load) return entry
    entries.set(key, entry)
    if (before) return entry
    if (entries.size > KNOWN_FLAGS_OF_TENANT) entries.delete(entries.keys().next().value ?? '')
    else this.#tenants.grown(tenantId, flags)
    return entry
  }
}

function unavailable(cause?: unknown): TenancyError {
  return DependencyUnavailable('Flags cannot be read at the moment.', { cause })
}
