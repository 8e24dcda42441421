/**
 * Caches tenants by id and by domain, for lookups on every request.
 *
 *   unknown ──load──► known ──(change received)──► unknown
 *                      │ ▲
 *    (no notifications │ │ load: the database responds
 *     for 5 s, or gap) ▼ │
 *                    doubtful ──(database unavailable)──► served for `staleForMs` after the last confirmation, then 503
 *
 * - A tenant is confirmed while this process receives notifications.
 * - After a load has failed because the database is unavailable, there is one load per second for all requests, which
 *   do not wait for it. Unknown tenants are 503 during that time.
 * - A tenant with a received change is unknown, also during an outage.
 * - Of several reads of one tenant, the result of the last started one is kept. A cached tenant remains until then.
 * - Unknown and deleted tenants have a separate cache (negative-cache.ts).
 * - A domain belongs to a tenant as long as the cached tenant has it, so domains need no notifications. A negative
 *   entry of a domain lives until any change.
 */
import { LRUCache } from 'lru-cache'
import { OutageBackoff } from '../../kernel/base/backoff.ts'
import { withoutDeadline } from '../../kernel/base/deadline.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { StorageLocation } from '../isolation/driver.ts'
import { deepFreeze } from '../tenant/deep-freeze.ts'
import type { TenantRecord } from '../tenant/tenant.ts'
import { NegativeCache } from './negative-cache.ts'

const CACHED_TENANTS = 10_000
const DEAF_TTL_MS = 5_000
/** A read on an unresponsive connection would fail only after minutes. */
const LOAD_TIMEOUT_MS = 5_000

/** A tenant with its storage location. */
export interface Located {
  readonly tenant: TenantRecord
  readonly location: StorageLocation
}

/** Reads of the database. */
export interface TenantReads {
  byId(id: string): Promise<Located | undefined>
  byDomain(domain: string): Promise<Located | undefined>
}

/** A time without gaps in the received notifications. */
interface Period {
  endedAt: number
}

interface Entry {
  readonly located: Located
  /** Sequence number of the read, in start order. */
  readonly read: number
  readonly at: number
  readonly period: Period
}

interface Load {
  readonly read: () => Promise<Located | undefined>
  readonly keep: (located: Located | undefined, read: number) => void
  /** The entry to serve while the database is unavailable, regardless of its age. */
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
  /** Increases with each invalidation: results of earlier reads are not kept. */
  #generation = 0
  #readsStarted = 0
  #period: Period = { endedAt: Number.POSITIVE_INFINITY }
  readonly #outage = new OutageBackoff()

  constructor(kernel: Kernel, reads: TenantReads, staleForMs: number) {
    this.#kernel = kernel
    this.#reads = reads
    this.#staleForMs = staleForMs
  }

  /** The tenant, if it is cached and not deleted. */
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
   * Reads the database, and does not share a read that started earlier. The cached tenant remains until there is a
   * result. Rejects if the database is unavailable; immediately if the outage is known.
   */
  async refresh(id: string): Promise<Located | undefined> {
    if (this.#kernel.database.inTransaction) return this.#reads.byId(id)
    if (!this.#outage.shouldTry) throw unavailable()
    return this.#load({ ...this.#loadOf(id), before: () => undefined })
  }

  /** Call it after a change of the tenant. */
  forget(id: string): void {
    this.#generation++
    this.#tenants.delete(id)
    this.#absentIds.forget(id)
    this.#absentDomains.forgetAll()
    this.#loadingIds.delete(id)
    this.#loadingDomains.clear()
  }

  /** Call it after a gap in the notifications. */
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
    if (this.#kernel.database.inTransaction) return undefined // a transaction sees its uncommitted changes
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

  /** The stale entry, while the database is unavailable. Starts a background read if one is due. */
  #stale(entry: Entry): Entry | undefined {
    if (!this.#outage.isActive || !this.#isServable(entry)) return undefined
    const { id } = entry.located.tenant
    if (this.#outage.shouldTry) {
      this.#loadOnce(this.#loadingIds, id, this.#loadOf(id)).catch((error) =>
        this.#kernel.log.warn({ err: error, tenantId: id }, 'could not read a tenant again'),
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

  /** One load of a key at a time; concurrent callers share its result. */
  async #loadOnce(
    loading: Map<string, Promise<Located | undefined>>,
    key: string,
    load: Load,
  ): Promise<Located | undefined> {
    const running = loading.get(key)
    if (running) return running
    if (!this.#outage.shouldTry) throw unavailable()
    const started = withoutDeadline(() => this.#load(load))
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
        await withTimeout(read(), LOAD_TIMEOUT_MS, () => unavailable(new Error('the read timed out'))),
      ) // shared by many requests
      this.#outage.answered()
      if (generation === this.#generation) keep(located, started)
      return located
    } catch (error) {
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) {
        this.#outage.answered()
        throw error
      }
      if (this.#outage.failed())
        this.#kernel.log.warn({ err: error }, 'could not read tenants from the database; serving from cache')
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
  DependencyUnavailable('The tenant is unknown to the cache and the database is unavailable.', {
    retryAfterSeconds: 5,
    cause,
  })

const isThere = ({ tenant }: Located): boolean => tenant.status !== 'deleted'
