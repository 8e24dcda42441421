/**
 * Flags in the store, for all processes, when the store is quicker than the database (Redis). Under the tenant's key
 * `feature-flags/<key>` stands the flag's rule, `null` where there is no such flag, or a tombstone: "ask the database".
 *
 * What is overwritten must not come back. So
 *
 *   - a write sets a tombstone before it commits, in the place of whatever is there, for as long as anything of old could be
 *     kept, so that a writer which dies after its commit leaves nothing of old behind;
 *   - after the commit the tombstone is set again, for 10 s; after a rollback it stays until it expires, and costs reads;
 *   - a loader only ever fills an empty place, and only with what it began to read less than 5 s ago. What was read before a
 *     commit so meets the tombstone, however slow the loader is. 5 s are left for the command to arrive.
 *
 * A writer that cannot reach the store leaves there what is old, until it expires: `outdatedMs` after the commit it is gone at the
 * latest. So who has heard of every change for that long, and of none of this tenant, may believe what is here as if it had just
 * been read. Who hears, but not for so long, may believe it for a moment; who does not hear, or has heard of a change, asks the
 * database. That is for cache.ts to decide.
 *
 * The store is waited for 250 ms, and while it is away nobody waits: one tries again each second. What happens then, the policy
 * `redis.cache` says.
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

/** What stands in the store: a flag, or that there is none. */
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

  /** For how long after a change something older may stand here. */
  get outdatedMs(): number {
    return (this.#ttlSeconds + TOMBSTONE_SECONDS) * 1_000
  }

  /** Undefined when the database is to be asked. Throws when the store is away and the policy is `fail-closed`. */
  async get(tenantId: string, key: string): Promise<Shared | undefined> {
    try {
      return sharedIn(await this.#request((store) => store.get(tenantId, nameOf(key))))
    } catch (error) {
      this.#kernel.resilience.degrade('redis.cache', 'flags.read', tenantId, error)
      return undefined
    }
  }

  /** @param startedAt when the read of it began, as `performance.now()` tells time */
  async fill(tenantId: string, key: string, rule: FlagRule | undefined, startedAt: number): Promise<void> {
    if (performance.now() - startedAt > FILLED_WITHIN_MS) return
    const value = JSON.stringify(rule ?? null)
    try {
      await this.#request((store) => store.setIfAbsent(tenantId, nameOf(key), value, this.#ttlSeconds))
    } catch (error) {
      this.#kernel.log.debug({ err: error, tenantId, key }, 'a flag could not be put into the store')
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

  /** Who cannot be told does not keep a write from being made. */
  async #bury(tenantId: string, keys: readonly string[], seconds: number): Promise<void> {
    try {
      await this.#request((store) =>
        Promise.all(keys.map((key) => store.set(tenantId, nameOf(key), TOMBSTONE, seconds))),
      )
    } catch (error) {
      this.#kernel.log.warn({ err: error, tenantId, keys }, 'the store could not be told that flags change')
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

/** What cannot be read, as when somebody else wrote it, is nothing. */
function sharedIn(kept: string | null): Shared | undefined {
  if (kept === null || kept === TOMBSTONE) return undefined
  try {
    return { rule: Kept.parse(JSON.parse(kept)) ?? undefined }
  } catch {
    return undefined
  }
}

const unavailable = (cause?: unknown) => DependencyUnavailable('The store does not answer at the moment.', { cause })
