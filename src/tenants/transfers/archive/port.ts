/**
 * Port of the backup storage. A key is `<tenant id>/<file name>` in lower case.
 *
 * - The object of a key is complete: it appears atomically after its last byte. Of concurrent writers of one key, the
 *   last to end wins.
 * - A *partial* object is in progress or left by an ended process. It has its own key `<key>.<which>.partial`, which
 *   only `list` returns and only `delete` accepts: one partial object can be removed without effect on other writers.
 * - Every method is safe to repeat. An unavailable server is `E_DEPENDENCY_UNAVAILABLE`; an invalid key is rejected.
 */
import { defineError } from '../../../kernel/base/errors.ts'

export interface Archives {
  /** `directory`, `s3` */
  readonly name: string
  /** The same in all processes with the same storage; without secrets. `directory /var/backups` */
  readonly identity?: string
  /** Rejects immediately if the storage is not writable. */
  start(): Promise<void>
  /** Rejects if `start` would fail now. */
  check(): Promise<void>
  /**
   * Stores the bytes of `chunks` at `key` after `chunks` has ended. If `chunks` throws, or `signal` aborts first,
   * rejects with that error and `key` is unchanged. A partial object remains only if the process ends or the storage
   * becomes unavailable.
   */
  write(key: string, chunks: AsyncIterable<Uint8Array>, options: WriteOptions): Promise<void>
  /** Throws `E_ARCHIVE_MISSING` at the first chunk if the object does not exist. A reader can be slow or stop early. */
  read(key: string): AsyncIterable<Uint8Array>
  /**
   * Removes the object, if it exists. For a key: also its partial objects, whose writers then fail. For the key of a
   * partial object: only that object.
   */
  delete(key: string): Promise<void>
  /** All objects including partial ones, in any order. Objects with invalid keys are skipped. */
  list(): AsyncIterable<StoredArchive>
  /** Counts all objects of a tenant, complete and partial, and other versions of them. */
  count(tenantId: string): Promise<CountedArchives>
  /** Removes all of these. Versions that the storage does not allow to delete remain. */
  erase(tenantId: string): Promise<void>
  stop(): Promise<void>
}

export interface CountedArchives {
  readonly objects: number
  /** Older versions and deletion marks. Null: the storage may keep some, and does not list them for these credentials. */
  readonly versions: number | null
}

export interface WriteOptions {
  readonly signal: AbortSignal
  /** Estimated size of the object. */
  readonly estimatedBytes?: number | undefined
}

export interface StoredArchive {
  /** The key for `delete`. */
  readonly key: string
  readonly isPartial: boolean
  /** 0 for a partial object of unknown size. */
  readonly sizeBytes: number
  /** For a partial object: time of its start or its last write. */
  readonly modifiedAt: Date
}

export const ArchiveMissing = defineError('E_ARCHIVE_MISSING', 409, 'Backup file not found')
