/**
 * The outbox of a tenant's storage: a part of the port in driver.ts. A transaction of the tenant posts entries, which
 * exist if it commits. Statements of tenants cannot read or change them.
 */
import type { StorageLocation } from './location.ts'

/** Maximum size of payload and context of an entry together, as JSON. `tenantry.post` and `newEntry` reject more. */
export const MAX_ENTRY_BYTES = 256 * 1024

/** A statement that posts: `$1` and so on in PostgreSQL, `?` in SQLite. */
export interface PostStatement {
  readonly text: string
  readonly values: readonly unknown[]
}

export interface NewEntry {
  /** UUID; each id of a tenant is applied once. */
  readonly id: string
  readonly kind: string
  /** JSON. */
  readonly payload: string
  /** JSON; null for SQL of the host. */
  readonly context: string | null
  readonly mac: string | null
}

export interface PostedEntry extends NewEntry {
  readonly tenantId: string
  readonly postedAt: Date
}

/** Entries that cannot be applied at present: they stay for the next relay, and the others are deleted. */
export interface Postponed {
  readonly entries: ReadonlySet<PostedEntry>
  /** The first error. */
  readonly error: unknown
}

/** Waiting entries of a kind that this process does not know. */
export interface UnknownKind {
  readonly kind: string
  readonly count: number
  /** Time of the first post. */
  readonly since: Date
}

export interface RelayOptions {
  /** Kinds to relay; undefined: all, also those that another relay holds, which are waited for. */
  readonly kinds?: readonly string[] | undefined
  /** Only the entries of this tenant. */
  readonly tenantId?: string | undefined
}

export interface DriverOutbox {
  /** Whether all tenants of a placement have one outbox. */
  readonly isShared: boolean
  post(entry: NewEntry): PostStatement
  /** Creates the objects of the outbox in storage of an earlier version. Call it before the first post. */
  prepare(location: StorageLocation): Promise<void>
  /**
   * Passes entries in batches to `apply` and deletes them after it has resolved. An entry is passed again if the
   * process is killed in between. Entries that another relay holds are skipped. Missing storage has none. Entries of a
   * kind of which `apply` has postponed entries stay. After all others, the error of the first of them is thrown.
   *
   * @param location of the tenant; with a shared database, all tenants there
   */
  relay(
    location: StorageLocation,
    options: RelayOptions,
    apply: (entries: readonly PostedEntry[]) => Promise<Postponed | undefined>,
  ): Promise<void>
  /**
   * Entries of other kinds than these. Absent if all entries are of the process.
   * @param location as for `relay`
   */
  unknownKinds?(location: StorageLocation, kinds: readonly string[]): Promise<readonly UnknownKind[]>
  /**
   * Calls `work` while no transaction can post, if there are no entries. Returns false if there are some, or if one is
   * being posted. Only with an own database.
   */
  whileEmpty?(location: StorageLocation, work: () => Promise<void>): Promise<boolean>
  /**
   * Age in seconds of the oldest entry; 0 if there is none. Absent if all entries are of the process.
   * @param location as for `relay`
   */
  oldestSeconds?(location: StorageLocation): Promise<number>
}
