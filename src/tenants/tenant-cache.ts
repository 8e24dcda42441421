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
 * Absence is remembered for a second, apart from tenants: that many ids are made up neither costs a read each time one is
 * repeated nor drives tenants out. Who is created is known at once all the same, since that is a change; the second bounds
 * what is missed by a process that cannot hear. A domain is its tenant's as long as the tenant says so, so nothing need be
 * heard of domains; that nobody has one holds until anything changes.
 */
import { LRUCache } from 'lru-cache'
import { isDatabaseUnavailable } from '../kernel/database.ts'
import { DependencyUnavailable } from '../kernel/errors.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { DependencyDegraded } from '../kernel/resilience.ts'
import type { Place } from './isolation.ts'
import type { Tenant } from './tenant.ts'

const CACHED_TENANTS = 10_000
const CACHED_ABSENCES = 10_000
const DEAF_TTL_MS = 5_000
const ABSENT_TTL_MS = 1_000
const LOAD_TIMEOUT_MS = 5_000
const RETRY_MS = 1_000

/** A tenant with the place of its storage. */
export interface Located {
  readonly tenant: Tenant
  readonly place: Place
}

/** An answer; `located` is undefined when there is no such tenant. */
interface Known {
  readonly located: Located | undefined
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

interface Entry extends Known {
  readonly located: Located
  readonly at: number
  readonly period: Period
}

interface Absence {
  readonly until: number
  readonly generation: number
}

interface Load {
  readonly read: () => Promise<Located | undefined>
  readonly keep: (located: Located | undefined) => void
  /** What was known before, however old. */
  readonly before: () => Entry | undefined
}

const ABSENT: Known = { located: undefined }

export class TenantCache {
  readonly #kernel: Kernel
  readonly #reads: TenantReads
  readonly #staleForMs: number
  readonly #tenants = new LRUCache<string, Entry>({ max: CACHED_TENANTS })
  readonly #owners = new LRUCache<string, string>({ max: CACHED_TENANTS })
  readonly #absentIds = new LRUCache<string, Absence>({ max: CACHED_ABSENCES })
  readonly #absentDomains = new LRUCache<string, Absence>({ max: CACHED_ABSENCES })
  readonly #loadingIds = new Map<string, Promise<Located | undefined>>()
  readonly #loadingDomains = new Map<string, Promise<Located | undefined>>()
  /** Rises with every invalidation: what was read before one is not kept after it. */
  #generation = 0
  #period: Period = { endedAt: Number.POSITIVE_INFINITY }
  #outage: { readonly retryAt: number; isTrying: boolean } | undefined
  #toldAt = Number.NEGATIVE_INFINITY

  constructor(kernel: Kernel, reads: TenantReads, staleForMs: number) {
    this.#kernel = kernel
    this.#reads = reads
    this.#staleForMs = staleForMs
  }

  /** The tenant, if that can be said without asking the database. */
  peek(id: string): Located | undefined {
    return this.#known(id)?.located
  }

  peekDomain(domain: string): Located | undefined {
    return this.#knownOf(domain)?.located
  }

  async find(id: string): Promise<Located | undefined> {
    if (this.#kernel.database.inTransaction) return this.#reads.byId(id)
    const known = this.#known(id)
    return known ? known.located : this.#ask(this.#loadingIds, id, this.#loadOf(id))
  }

  async findByDomain(domain: string): Promise<Located | undefined> {
    if (this.#kernel.database.inTransaction) return this.#reads.byDomain(domain)
    const known = this.#knownOf(domain)
    if (known) return known.located
    return this.#ask(this.#loadingDomains, domain, {
      read: () => this.#reads.byDomain(domain),
      keep: (located) => {
        if (located) this.#owners.set(domain, located.tenant.id)
        else this.#owners.delete(domain)
        this.#keep(this.#absentDomains, domain, located)
      },
      before: () => {
        const entry = this.#tenants.get(this.#owners.get(domain) ?? '')
        return entry?.located.tenant.domains.includes(domain) ? entry : undefined
      },
    })
  }

  /** Asks the database whatever is known. */
  refresh(id: string): Promise<Located | undefined> {
    this.forget(id)
    return this.find(id)
  }

  /** A tenant has changed. */
  forget(id: string): void {
    this.#generation++
    this.#tenants.delete(id)
    this.#absentIds.delete(id)
    this.#loadingIds.delete(id)
    this.#loadingDomains.clear()
  }

  /** Changes can be heard again, and some may have been missed. */
  doubtAll(): void {
    this.#generation++
    this.#period.endedAt = this.#kernel.database.lostListeningAt
    this.#period = { endedAt: Number.POSITIVE_INFINITY }
    this.#outage = undefined
    this.#absentIds.clear()
    this.#loadingIds.clear()
    this.#loadingDomains.clear()
  }

  #known(id: string): Known | undefined {
    if (this.#kernel.database.inTransaction) return undefined // it sees what no one else may know
    const entry = this.#tenants.get(id)
    if (entry) return this.#isFresh(entry) ? entry : this.#stale(entry)
    const absence = this.#absentIds.get(id)
    return absence && performance.now() < absence.until ? ABSENT : undefined
  }

  #knownOf(domain: string): Known | undefined {
    const owner = this.#owners.get(domain)
    if (owner !== undefined) {
      const known = this.#known(owner)
      return known?.located?.tenant.domains.includes(domain) ? known : undefined
    }
    if (this.#kernel.database.inTransaction) return undefined
    const absence = this.#absentDomains.get(domain)
    return absence && absence.generation === this.#generation && performance.now() < absence.until ? ABSENT : undefined
  }

  #isFresh({ period, at }: Entry): boolean {
    if (period !== this.#period) return false
    return this.#kernel.database.isListening || performance.now() - at < DEAF_TTL_MS
  }

  /** What is known of old, while the database is away; asks again in the background when it is time to. */
  #stale(entry: Entry): Known | undefined {
    if (!this.#outage || !this.#isServable(entry)) return undefined
    const { id } = entry.located.tenant
    if (this.#mayTry()) {
      this.#ask(this.#loadingIds, id, this.#loadOf(id)).catch((error) =>
        this.#kernel.log.warn({ err: error, tenantId: id }, 'a tenant could not be read again'),
      )
    }
    this.#tell(id)
    return entry
  }

  #isServable({ at, period }: Entry): boolean {
    const { isListening, lostListeningAt } = this.#kernel.database
    const now = performance.now()
    const confirmedAt = Math.max(at, Math.min(period.endedAt, isListening ? now : lostListeningAt))
    return now - confirmedAt <= this.#staleForMs
  }

  #mayTry(): boolean {
    return !this.#outage || (!this.#outage.isTrying && performance.now() >= this.#outage.retryAt)
  }

  #loadOf(id: string): Load {
    return {
      read: () => this.#reads.byId(id),
      keep: (located) => this.#keep(this.#absentIds, id, located),
      before: () => this.#tenants.get(id),
    }
  }

  #keep(absences: LRUCache<string, Absence>, key: string, located: Located | undefined): void {
    const at = performance.now()
    if (!located) absences.set(key, { until: at + ABSENT_TTL_MS, generation: this.#generation })
    else this.#tenants.set(located.tenant.id, { located: frozen(located), at, period: this.#period })
  }

  /** One load of a key at a time; whoever asks meanwhile gets its answer. */
  async #ask(
    loading: Map<string, Promise<Located | undefined>>,
    key: string,
    load: Load,
  ): Promise<Located | undefined> {
    const running = loading.get(key)
    if (running) return running
    if (!this.#mayTry()) throw unavailable()
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
    if (this.#outage) this.#outage.isTrying = true
    try {
      const located = await inTime(read())
      this.#outage = undefined
      if (generation === this.#generation) keep(located)
      return located
    } catch (error) {
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) {
        this.#outage = undefined
        throw error
      }
      if (!this.#outage) this.#kernel.log.warn({ err: error }, 'tenants cannot be read; who is known is served')
      this.#outage = { retryAt: performance.now() + RETRY_MS, isTrying: false }
      const entry = before()
      if (!entry || !this.#isServable(entry)) throw unavailable(error)
      this.#tell(entry.located.tenant.id)
      return entry.located
    }
  }

  /** Once a second, not on every request. */
  #tell(tenantId: string): void {
    const now = performance.now()
    if (now - this.#toldAt < RETRY_MS) return
    this.#toldAt = now
    const { events, log } = this.#kernel
    events
      .publish(DependencyDegraded, {
        dependency: 'database',
        operation: 'tenants.find',
        tenantId,
        policy: 'fail-open',
        errorCode: DependencyUnavailable.code,
      })
      .catch((error) => log.error({ err: error }, 'a degradation could not be told'))
  }
}

const unavailable = (cause?: unknown) =>
  DependencyUnavailable('The tenant cannot be looked up at the moment.', { retryAfterSeconds: 5, cause })

/** A connection that has gone silent fails a read only after minutes. */
async function inTime<T>(reading: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  try {
    const deadline = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(unavailable(new Error('the read took too long'))), LOAD_TIMEOUT_MS)
    })
    return await Promise.race([reading, deadline])
  } finally {
    clearTimeout(timer)
  }
}

/** Many requests share one: none may change it for the others. */
function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const member of Object.values(Object.freeze(value))) frozen(member)
  }
  return value
}
