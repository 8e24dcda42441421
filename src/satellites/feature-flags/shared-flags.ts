/**
 * Flags in the store, for all processes, when the store is quicker than the database (Redis). Under the tenant's key
 * `feature-flags/<key>` stands the flag's rule, `null` where there is no such flag, or a tombstone: "ask the database".
 *
 * What is overwritten must not come back. So
 *
 *   - a write sets a tombstone before it commits, in the place of whatever is there, for as long as anything of old could be
 *     kept, so that a writer which dies after its commit leaves nothing of old behind;
 *   - after the commit the tombstone is set again, for 10 s, and so it is after a rollback in the end, by its expiry;
 *   - a loader only ever fills an empty place, and only with what it began to read less than 5 s ago. What was read before a
 *     commit so meets the tombstone, however slow the loader is. 5 s are left for the command to arrive.
 *
 * Where the store cannot be reached by the writer, but by a loader, what is old lives on until it expires, though not in a
 * process that heard of the change: what is in doubt is read from the database.
 *
 * The store is waited for 250 ms, and left alone for a second after it failed. What happens then, the policy `redis.cache` says.
 */
import { z } from 'zod'
import { DependencyUnavailable } from '../../kernel/errors.ts'
import { inTime } from '../../kernel/in-time.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { FlagRule } from './rollout.ts'

const WAITED_MS = 250
const PAUSE_MS = 1_000
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
  #pausedUntil = 0

  constructor(kernel: Kernel, ttlSeconds: number) {
    this.#kernel = kernel
    this.#ttlSeconds = ttlSeconds
  }

  /** Undefined when the database is to be asked. Throws when the store is away and the policy is `fail-closed`. */
  async get(tenantId: string, key: string): Promise<Shared | undefined> {
    try {
      if (performance.now() < this.#pausedUntil) throw unavailable()
      return sharedIn(await this.#ask((store) => store.get(tenantId, nameOf(key))))
    } catch (error) {
      this.#kernel.resilience.degrade('redis.cache', 'flags.read', tenantId, error)
      return undefined
    }
  }

  /** @param begunAt when the read of it began, as `performance.now()` tells time */
  async fill(tenantId: string, key: string, rule: FlagRule | undefined, begunAt: number): Promise<void> {
    const now = performance.now()
    if (now - begunAt > FILLED_WITHIN_MS || now < this.#pausedUntil) return
    const value = JSON.stringify(rule ?? null)
    try {
      await this.#ask((store) => store.setIfAbsent(tenantId, nameOf(key), value, this.#ttlSeconds))
    } catch (error) {
      this.#kernel.log.debug({ err: error, tenantId, key }, 'a flag could not be put into the store')
    }
  }

  /** Before the commit of a write. */
  announce(tenantId: string, keys: readonly string[]): Promise<void> {
    return this.#bury(tenantId, keys, this.#ttlSeconds + TOMBSTONE_SECONDS)
  }

  /** After the commit, or the rollback, of a write. */
  settle(tenantId: string, keys: readonly string[]): Promise<void> {
    return this.#bury(tenantId, keys, TOMBSTONE_SECONDS)
  }

  /** Also while the store is left alone: this is worth another try. Who cannot be told does not keep a write from being made. */
  async #bury(tenantId: string, keys: readonly string[], seconds: number): Promise<void> {
    try {
      await Promise.all(keys.map((key) => this.#ask((store) => store.set(tenantId, nameOf(key), TOMBSTONE, seconds))))
    } catch (error) {
      this.#kernel.log.warn({ err: error, tenantId, keys }, 'the store could not be told that flags change')
    }
  }

  async #ask<T>(work: (store: Kernel['store']) => Promise<T>): Promise<T> {
    try {
      return await inTime(work(this.#kernel.store), WAITED_MS, () => unavailable())
    } catch (error) {
      this.#pausedUntil = performance.now() + PAUSE_MS
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
