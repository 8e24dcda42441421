/**
 * The port of the key-value store: values with an expiry, counters, single-use values, messages to all processes. `purge` removes all
 * keys of a tenant. The store's clock measures every expiry. The store is not part of transactions. Each method throws
 * DependencyUnavailable if the store is unreachable, and E_INVALID_REQUEST for a value that it cannot keep (see `checkEntry`).
 */
import { z } from 'zod'
import type { Clock } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'
import { parsed } from '../base/validate.ts'
import type { Database } from '../database/database.ts'
import type { Migration } from '../database/migrations.ts'
import type { Listening } from '../database/notifications.ts'
import { isValidPostgresText } from '../database/postgres-text.ts'
import type { Counters } from './counters.ts'
import type { Sums } from './sums.ts'

/** Owner of a key: a tenant's id, or null for the service. */
export type Owner = string | null

export interface Kept {
  readonly tenantId: string
  readonly value: string
}

export interface Store {
  readonly name: string
  /** Whether to read it before the database: true if it is faster. */
  readonly isCache: boolean
  /** Counters of quotas. */
  readonly counters: Counters
  /** Sums of metrics. */
  readonly sums: Sums
  get(owner: Owner, key: string): Promise<string | null>
  /** Without `ttlSeconds` the value is kept until it is deleted, regardless of a former expiry. */
  set(owner: Owner, key: string, value: string, ttlSeconds?: number): Promise<void>
  /** Sets a missing key and returns whether this call did: exactly one of concurrent callers receives true. */
  setIfAbsent(owner: Owner, key: string, value: string, ttlSeconds?: number): Promise<boolean>
  /** Gets and removes in one step: of any number of callers, one receives the value. */
  take(owner: Owner, key: string): Promise<string | null>
  delete(owner: Owner, key: string): Promise<void>
  /** Adds a whole number to a counter and returns its value; each write restarts the expiry. */
  increment(owner: Owner, key: string, amount: number, ttlSeconds?: number): Promise<number>
  /** Values of all tenants under a key. It may read the whole store: for a start, not for a request. */
  list(key: string): Promise<readonly Kept[]>
  /** Sends a message to every subscribed process, including this one. Without subscribers it is lost. 7,000 bytes at most. */
  publish(channel: string, message: string): Promise<void>
  /**
   * `onGap` is called after each (re)connection: earlier messages may be lost. If the store is unavailable, this throws, or receives
   * messages as soon as it is available (redis).
   */
  subscribe(channel: string, onMessage: (message: string) => void, onGap: () => void): Promise<Listening>
  /** Removes every key, counter and sum of a tenant. It may read the whole store. */
  purge(tenantId: string): Promise<void>
  /** Number of keys, counters and sums of a tenant. It may read the whole store. */
  count(tenantId: string): Promise<number>
  /** Policy by which the server may evict keys; undefined if it evicts none. */
  evictionPolicy?(): Promise<string | undefined>
  /** Times of its servers in ms; absent if their clock is that of this process or of the backoffice database. */
  times?(): Promise<readonly number[]>
  ping(): Promise<void>
  close(): Promise<void>
}

/** The declaration of a store: its tables in the backoffice database, and how it is opened. */
export interface StoreDriver {
  /** The same in all processes with the same store; without secrets. `redis://cache.example.com:6379/0` */
  readonly identity?: string
  readonly tables?: readonly Migration[]
  open(base: { database: Database; clock: Clock; log: Logger }): Store
}

export const MAX_KEY_LENGTH = 512
const MAX_OWNER_LENGTH = 128
/** Limit of PostgreSQL's notifications, with a margin. */
export const MAX_MESSAGE_BYTES = 7_000
export const CHANNEL = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,39}$/
const MAX_TTL_SECONDS = 100 * 366 * 86_400

/** Text that every driver can keep: PostgreSQL has no NUL, and UTF-8 no unpaired surrogate. */
const Text = z.string().refine(isValidPostgresText, 'must not contain NUL or an unpaired surrogate')

const Entry = z.object({
  owner: Text.min(1).max(MAX_OWNER_LENGTH).nullable(),
  key: Text.min(1).max(MAX_KEY_LENGTH).optional(),
  value: Text.optional(),
  amount: z.int().optional(),
  ttlSeconds: z.number().positive().max(MAX_TTL_SECONDS).optional(),
})

const Message = z.object({
  channel: z.string().regex(CHANNEL),
  message: Text.refine((text) => Buffer.byteLength(text) <= MAX_MESSAGE_BYTES, 'is too long for a message').optional(),
})

/** Validates arguments, alike for all drivers. */
export function checkEntry(entry: z.input<typeof Entry>): void {
  parsed(Entry, entry)
}

export function checkMessage(message: z.input<typeof Message>): void {
  parsed(Message, message)
}
