/**
 * What this process knows of tenants, for whatever runs on every request. Asked by id or by domain.
 *
 *   unknown ──load──► known ──(a change is heard)──► unknown
 *                      │ ▲
 *         (unheard for │ │ load: the database answers
 *     5 s, or a gap)   ▼ │
 *                    doubtful ──(the database is away)──► served for `staleForMs` after it was last confirmed, then 503
 *
 * A tenant is confirmed as long as this process hears of changes: none was heard, so there was none. A load that fails because
 * the database is away is the last one for a second: until then nobody waits for another, and then one tries for all. What is
 * not known is 503 meanwhile. A tenant that was heard to have changed is not known any more, outage or not.
 *
 * Of reads of one tenant the one that began last is kept: what is known stands until there is a newer answer. Who is not there,
 * or is deleted, is remembered apart (negative-cache.ts). A domain is its tenant's as long as the tenant says so, so nothing need be
 * heard of domains; that nobody has one holds until anything changes.
 */
import { LRUCache } from 'lru-cache'
import { OutageBackoff } from '../../kernel/base/backoff.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { StorageLocation } from '../isolation/driver.ts'
import { deepFreeze } from '../tenant/deep-freeze.ts'
import type { Tenant } from '../tenant/tenant.ts'
import { NegativeCache } from './negative-cache.ts'

const CACHED_TENANTS = 10_000
const DEAF_TTL_MS = 5_000
/** A connection that has gone silent fails a read only after minutes. */
const LOAD_TIMEOUT_MS = 5_000

/** A tenant with its storage location. */
export interface Located {
  readonly tenant: Tenant
  readonly location: StorageLocation
}

/** The database, asked anew. */
export interface TenantReads {
  byId(id: string): Promise<Located | undefined>
  byDomain(domain: string): Promise<Located | undefined>
}

/** A time without a gap in what is heard. */
interface Period {
  endedAt: number
}

interface Entry {
  readonly located: Located
  /** Which read it is from, in the order in which they began. */
  readonly read: number
  readonly at: number
  readonly period: Period
}

interface Load {
  readonly read: () => Promise<Located | undefined>
  readonly keep: (located: Located | undefined, read: number) => void
  /** What may be answered in its place when the database is away, however old. */
  readonly before: () => Entry | undefined
}

export class TenantCache {
  readonly #kernel: Kernel
  readonly #reads: TenantReads
  readonly #staleForMs: number
  readonly #tenants = new LRUCache<string, Entry>({ max: CACHED_TENANTS })
  readonly #owners = new LRUCache<string, string>({ max: CACHED_TENANTS })
  readonly #absentIds = new NegativeCache<Located>()
  readonly #absentDomains = new NegativeCache<Located>()
  readonly #loadingIds = new Map<string, Promise<Located | undefined>>()
  readonly #loadingDomains = new Map<string, Promise<Located | undefined>>()
  /** Rises with every invalidation: what was read before one is not kept after it. */
  #generation = 0
  #readsStarted = 0
  #period: Period = { endedAt: Number.POSITIVE_INFINITY }
  readonly #outage = new OutageBackoff()

  constructor(kernel: Kernel, reads: TenantReads, staleForMs: number) {
    this.#kernel = kernel
    this.#reads = reads
    this.#staleForMs = staleForMs
  }

  /** The tenant, if that can be said without asking the database; never one that is deleted. */
  peek(id: string): Located | undefined {
    return this.#served(id)?.located
  }

  peekDomain(domain: string): Located | undefined {
    return this.#servedOf(domain)?.located
  }

  async find(id: string): Promise<Located | undefined> {
    if (this.#kernel.database.inTransaction) return this.#reads.byId(id)
    const known = this.#served(id) ?? this.#absentIds.get(id)
    return known ? known.located : this.#loadOnce(this.#loadingIds, id, this.#loadOf(id))
  }

  async findByDomain(domain: string): Promise<Located | undefined> {
    if (this.#kernel.database.inTransaction) return this.#reads.byDomain(domain)
    const known = this.#servedOf(domain) ?? this.#absentDomains.get(domain)
    if (known) return known.located
    return this.#loadOnce(this.#loadingDomains, domain, {
      read: () => this.#reads.byDomain(domain),
      keep: (located, read) => {
        if (located && isThere(located)) {
          this.#owners.set(domain, located.tenant.id)
          this.#keep(located, read)
        } else {
          this.#owners.delete(domain)
          if (located) this.#drop(located.tenant.id, read)
          this.#absentDomains.set(domain, { located, read })
        }
      },
      before: () => this.#ownerOf(domain),
    })
  }

  /**
   * Asks the database whatever is known, and waits for no read that began earlier. What is known stays until there is an answer,
   * and when there is none, this rejects; while the database is known to be away, at once.
   */
  async refresh(id: string): Promise<Located | undefined> {
    if (this.#kernel.database.inTransaction) return this.#reads.byId(id)
    if (!this.#outage.shouldTry) throw unavailable()
    return this.#load({ ...this.#loadOf(id), before: () => undefined })
  }

  /** A tenant has changed. */
  forget(id: string): void {
    this.#generation++
    this.#tenants.delete(id)
    this.#absentIds.forget(id)
    this.#absentDomains.forgetAll()
    this.#loadingIds.delete(id)
    this.#loadingDomains.clear()
  }

  /** Changes can be heard again, and some may have been missed. */
  doubtAll(): void {
    this.#generation++
    this.#period.endedAt = this.#kernel.database.lostListeningAt
    this.#period = { endedAt: Number.POSITIVE_INFINITY }
    this.#outage.answered()
    this.#absentIds.forgetAll()
    this.#absentDomains.forgetAll()
    this.#loadingIds.clear()
    this.#loadingDomains.clear()
  }

  #served(id: string): Entry | undefined {
    if (this.#kernel.database.inTransaction) return undefined // it sees what no one else may know
    const entry = this.#tenants.get(id)
    if (!entry) return undefined
    return this.#isFresh(entry) ? entry : this.#stale(entry)
  }

  #servedOf(domain: string): Entry | undefined {
    const owner = this.#ownerOf(domain)
    return owner && this.#served(owner.located.tenant.id)
  }

  #ownerOf(domain: string): Entry | undefined {
    const entry = this.#tenants.get(this.#owners.get(domain) ?? '')
    return entry?.located.tenant.domains.includes(domain) ? entry : undefined
  }

  #isFresh({ period, at }: Entry): boolean {
    if (period !== this.#period) return false
    return this.#kernel.database.isListening || performance.now() - at < DEAF_TTL_MS
  }

  /** What is known of old, while the database is away; asks again in the background when it is time to. */
  #stale(entry: Entry): Entry | undefined {
    if (!this.#outage.isActive || !this.#isServable(entry)) return undefined
    const { id } = entry.located.tenant
    if (this.#outage.shouldTry) {
      this.#loadOnce(this.#loadingIds, id, this.#loadOf(id)).catch((error) =>
        this.#kernel.log.warn({ err: error, tenantId: id }, 'a tenant could not be read again'),
      )
    }
    this.#report(id)
    return entry
  }

  #isServable({ at, period }: Entry): boolean {
    const { isListening, lostListeningAt } = this.#kernel.database
    const now = performance.now()
    const confirmedAt = Math.max(at, Math.min(period.endedAt, isListening ? now : lostListeningAt))
    return now - confirmedAt <= this.#staleForMs
  }

  #loadOf(id: string): Load {
    return {
      read: () => this.#reads.byId(id),
      keep: (located, read) => {
        if (located && isThere(located)) return this.#keep(located, read)
        this.#drop(id, read)
        if (!this.#tenants.has(id)) this.#absentIds.set(id, { located, read })
      },
      before: () => this.#tenants.get(id),
    }
  }

  #keep(located: Located, read: number): void {
    const { id } = located.tenant
    const newest = this.#tenants.get(id) ?? this.#absentIds.get(id)
    if (newest && newest.read > read) return
    this.#tenants.set(id, { located, read, at: performance.now(), period: this.#period })
  }

  #drop(id: string, read: number): void {
    const entry = this.#tenants.get(id)
    if (entry && entry.read < read) this.#tenants.delete(id)
  }

  /** One load of a key at a time; whoever asks meanwhile gets its answer. */
  async #loadOnce(
    loading: Map<string, Promise<Located | undefined>>,
    key: string,
    load: Load,
  ): Promise<Located | undefined> {
    const running = loading.get(key)
    if (running) return running
    if (!this.#outage.shouldTry) throw unavailable()
    const started = this.#load(load)
    loading.set(key, started)
    try {
      return await started
    } finally {
      if (loading.get(key) === started) loading.delete(key)
    }
  }

  async #load({ read, keep, before }: Load): Promise<Located | undefined> {
    const generation = this.#generation
    const started = ++this.#readsStarted
    this.#outage.trying()
    try {
      const located = deepFreeze(
        await withTimeout(read(), LOAD_TIMEOUT_MS, () => unavailable(new Error('the read took too long'))),
      ) // many requests share it
      this.#outage.answered()
      if (generation === this.#generation) keep(located, started)
      return located
    } catch (error) {
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) {
        this.#outage.answered()
        throw error
      }
      if (this.#outage.failed()) this.#kernel.log.warn({ err: error }, 'tenants cannot be read; who is known is served')
      const entry = before()
      if (!entry || !this.#isServable(entry)) throw unavailable(error)
      this.#report(entry.located.tenant.id)
      return entry.located
    }
  }

  #report(tenantId: string): void {
    this.#kernel.resilience.report({
      dependency: 'database',
      operation: 'tenants.find',
      tenantId,
      policy: 'fail-open',
      errorCode: DependencyUnavailable.code,
    })
  }
}

const unavailable = (cause?: unknown) =>
  DependencyUnavailable('The tenant cannot be looked up at the moment.', { retryAfterSeconds: 5, cause })

const isThere = ({ tenant }: Located): boolean => tenant.status !== 'deleted'
