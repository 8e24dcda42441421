/**
 * Shares flags of all processes through a store that is faster than the database (Redis). The tenant's key `feature-flags/<key>` holds
 * the rule, `null` for an unknown flag, or a tombstone: "read the database".
 *
 * An overwritten value must never return:
 *
 *   - A write sets a tombstone before it commits, for the longest time that an old value could be stored. So a writer that is killed
 *     after its commit leaves no old value.
 *   - After the commit, the tombstone is set again for 10 s. After a rollback it stays until it expires.
 *   - A loader fills only an empty key, and only with a value whose read started less than 5 s ago. So an earlier read meets the
 *     tombstone. 5 s remain for the command to arrive.
 *
 * A writer that cannot reach the store leaves an old value for at most `outdatedMs`. A process that has received every change for that
 * long, and none of this tenant, may trust the store. cache.ts decides.
 *
 * A call of the store has a time limit of 250 ms. During an outage, one caller tries again each second, and the policy `redis.cache`
 * decides for the others.
 */
import { z } from 'zod'
import { OutageBackoff } from '../../../kernel/base/backoff.ts'
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import type { FlagRule } from '../model/rollout.ts'

const WAITED_MS = 250
const TOMBSTONE_SECONDS = 10
const FILLED_WITHIN_MS = 5_000
const TOMBSTONE = '-'

const Kept = z
  .object({
    key: z.string(),
    enabled: z.boolean(),
    rolloutPercent: z.number().nullable(),
    bucketKey: z.string().nullable(),
  })
  .nullable()

/** Content of a key: a flag, or none. */
export interface Shared {
  readonly rule: FlagRule | undefined
}

export class SharedFlags {
  readonly #kernel: Kernel
  readonly #ttlSeconds: number
  readonly #outage = new OutageBackoff()

  constructor(kernel: Kernel, ttlSeconds: number) {
    this.#kernel = kernel
    this.#ttlSeconds = ttlSeconds
  }

  /** Longest time for which an older value can be stored after a change, in ms. */
  get outdatedMs(): number {
    return (this.#ttlSeconds + TOMBSTONE_SECONDS) * 1_000
  }

  /** Undefined: read the database. Throws if the store is unavailable and the policy is `fail-closed`. */
  async get(tenantId: string, key: string): Promise<Shared | undefined> {
    try {
      return sharedIn(await this.#request((store) => store.get(tenantId, nameOf(key))))
    } catch (error) {
      this.#kernel.resilience.degrade('redis.cache', 'flags.read', tenantId, error)
      return undefined
    }
  }

  /** @param startedAt start of the read, on the clock of `performance.now()` */
  async fill(tenantId: string, key: string, rule: FlagRule | undefined, startedAt: number): Promise<void> {
    if (performance.now() - startedAt > FILLED_WITHIN_MS) return
    const value = JSON.stringify(rule ?? null)
    try {
      await this.#request((store) => store.setIfAbsent(tenantId, nameOf(key), value, this.#ttlSeconds))
    } catch (error) {
      this.#kernel.log.debug({ err: error, tenantId, key }, 'a flag could not be stored in the store')
    }
  }

  /** Before the commit of a write. */
  announce(tenantId: string, keys: readonly string[]): Promise<void> {
    return this.#bury(tenantId, keys, this.#ttlSeconds + TOMBSTONE_SECONDS)
  }

  /** After the commit of a write. */
  settle(tenantId: string, keys: readonly string[]): Promise<void> {
    return this.#bury(tenantId, keys, TOMBSTONE_SECONDS)
  }

  /** An unavailable store does not fail the write. */
  async #bury(tenantId: string, keys: readonly string[], seconds: number): Promise<void> {
    try {
      await this.#request((store) =>
        Promise.all(keys.map((key) => store.set(tenantId, nameOf(key), TOMBSTONE, seconds))),
      )
    } catch (error) {
      this.#kernel.log.warn({ err: error, tenantId, keys }, 'changes of flags could not be announced to the store')
    }
  }

  async #request<T>(work: (store: Kernel['store']) => Promise<T>): Promise<T> {
    if (!this.#outage.shouldTry) throw unavailable()
    this.#outage.trying()
    try {
      const result = await withTimeout(work(this.#kernel.store), WAITED_MS, () => unavailable())
      this.#outage.answered()
      return result
    } catch (error) {
      this.#outage.failed()
      throw DependencyUnavailable.matches(error) ? error : unavailable(error)
    }
  }
}

const nameOf = (key: string): string => `feature-flags/${key}`

/** Malformed content counts as none. */
function sharedIn(kept: string | null): Shared | undefined {
  if (kept === null || kept === TOMBSTONE) return undefined
  try {
    return { rule: Kept.parse(JSON.parse(kept)) ?? undefined }
  } catch {
    return undefined
  }
}

const unavailable = (cause?: unknown) => DependencyUnavailable('The store does not respond at present.', { cause })
