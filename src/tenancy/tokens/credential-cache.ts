/**
 * Caches tokens and sessions by their keys, for the authentication of every request.
 *
 *   unknown ──read──► known ──5 s, or a notification──► unknown
 *                       └──(database unavailable)──► served for `staleForMs` after its last read, then 503
 *
 * - A change notifies every process. While this process receives no notifications, a row is known for one second.
 * - Concurrent reads are one statement, and one statement runs at a time: invented keys cannot occupy the connections of the pool.
 * - A row that was read before a notification is not kept.
 * - During an outage there is one read per second for all requests, which do not wait for it.
 */
import { LRUCache } from 'lru-cache'
import { OutageBackoff } from '../../kernel/base/backoff.ts'
import { Batcher } from '../../kernel/base/batcher.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { NegativeCache } from '../../tenants/registry/negative-cache.ts'

const MAX_CACHED = 10_000
const MAX_READ = 500
const TTL_MS = 5_000
const DEAF_TTL_MS = 1_000
const READ_TIMEOUT_MS = 5_000

interface Entry<Value> {
  readonly value: Value
  readonly at: number
  /** Number of gaps in the notifications before its read. */
  readonly gaps: number
}

export interface CredentialCacheOptions<Value> {
  /** For reports of an unavailable database: `tokens.find`. */
  readonly operation: string
  readonly staleForMs: number
  /** Reads the values of these keys; a key without a value is missing in the result. */
  readonly read: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>
}

export class CredentialCache<Value extends object> {
  readonly #kernel: Pick<Kernel, 'database' | 'resilience' | 'log'>
  readonly #options: CredentialCacheOptions<Value>
  readonly #known = new LRUCache<string, Entry<Value>>({ maxSize: MAX_CACHED, sizeCalculation: () => 1 })
  readonly #absent = new NegativeCache<Value>()
  readonly #reads: Batcher<string, Value | undefined>
  readonly #outage = new OutageBackoff()
  /** Increases with each notification and gap. */
  #generation = 0
  /** Number of gaps in the notifications: rows that were read before the last one are not fresh. */
  #gaps = 0

  constructor(kernel: Pick<Kernel, 'database' | 'resilience' | 'log'>, options: CredentialCacheOptions<Value>) {
    this.#kernel = kernel
    this.#options = options
    this.#reads = new Batcher((keys) => this.#read(keys), { maxItems: MAX_READ })
  }

  /** @throws E_DEPENDENCY_UNAVAILABLE if the value is unknown and the database is unavailable */
  async find(key: string): Promise<Value | undefined> {
    const entry = this.#known.get(key)
    if (entry && this.#isFresh(entry)) return entry.value
    if (!entry && this.#absent.get(key)) return undefined
    if (!this.#outage.shouldTry) return this.#stale(entry)
    const generation = this.#generation
    try {
      const value = await this.#reads.add(key)
      if (generation === this.#generation) this.#keep(key, value)
      return value
    } catch (error) {
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) throw error
      return this.#stale(this.#known.get(key), error)
    }
  }

  /** Call it after a change. */
  forget(key: string): void {
    this.#generation++
    this.#known.delete(key)
    this.#absent.forget(key)
  }

  /** Call it after a gap in the notifications. Values remain for an outage. */
  doubtAll(): void {
    this.#generation++
    this.#gaps++
    this.#absent.forgetAll()
  }

  #isFresh({ at, gaps }: Entry<Value>): boolean {
    const ttl = this.#kernel.database.isListening ? TTL_MS : DEAF_TTL_MS
    return gaps === this.#gaps && performance.now() - at < ttl
  }

  #keep(key: string, value: Value | undefined): void {
    if (value) {
      this.#known.set(key, { value, at: performance.now(), gaps: this.#gaps })
      return
    }
    this.#known.delete(key)
    this.#absent.set(key, { located: undefined, read: 0 })
  }

  async #read(keys: readonly string[]): Promise<(Value | undefined)[]> {
    if (!this.#outage.shouldTry) throw DependencyUnavailable('The database is unavailable.')
    this.#outage.trying()
    try {
      const found = await withTimeout(this.#options.read([...new Set(keys)]), READ_TIMEOUT_MS, () =>
        DependencyUnavailable('The database did not respond in time.'),
      )
      this.#outage.answered()
      return keys.map((key) => found.get(key))
    } catch (error) {
      const { operation } = this.#options
      if (!isDatabaseUnavailable(error) && !DependencyUnavailable.matches(error)) this.#outage.answered()
      else if (this.#outage.failed())
        this.#kernel.log.warn(
          { err: error, operation },
          'could not read credentials from the database; serving from cache',
        )
      throw error
    }
  }

  #stale(entry: Entry<Value> | undefined, cause?: unknown): Value {
    const { operation, staleForMs } = this.#options
    if (!entry || performance.now() - entry.at > staleForMs) {
      throw DependencyUnavailable('The token or session is unknown to the cache and the database is unavailable.', {
        retryAfterSeconds: 5,
        cause,
      })
    }
    const errorCode = DependencyUnavailable.code
    this.#kernel.resilience.report({
      dependency: 'database',
      operation,
      tenantId: null,
      policy: 'fail-open',
      errorCode,
    })
    return entry.value
  }
}
