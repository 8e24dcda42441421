/**
 * Where archives are kept. A key is `<tenant id>/<file name>`, in small letters; what is under it is whole: it appears at once when
 * the last of it has been written, and what was given up half-way is never read. Of several who write one key, the last to end wins.
 *
 * What is not whole is *partial*, being written or left behind by a process that ended. It has a key of its own,
 * `<key>.<which>.partial`, that only `list` tells and only `delete` takes: so one of them can be removed, and no other writer's.
 *
 * Every method is safe to repeat. A server that cannot be reached is `E_DEPENDENCY_UNAVAILABLE`; what is no key is refused.
 */
import { defineError } from '../../../kernel/base/errors.ts'

export interface Archives {
  /** `directory`, `s3` */
  readonly name: string
  /** Fails at once where nothing could be written. */
  start(): Promise<void>
  /** Fails where `start` would fail now. */
  check(): Promise<void>
  /**
   * Takes what `chunks` yields and puts it under `key` when that has ended. When that throws, or `signal` aborts before, it throws the
   * same, `key` is as it was, and nothing else stays behind; a partial one may, when the process ends too or the storage cannot be
   * reached any more.
   */
  write(key: string, chunks: AsyncIterable<Uint8Array>, options: WriteOptions): Promise<void>
  /** Throws `E_ARCHIVE_MISSING` at its first chunk when there is none. Whoever reads may take their time, and may stop early. */
  read(key: string): AsyncIterable<Uint8Array>
  /**
   * None is there afterwards, whether there was one or not. With a key, nothing is there that was being written for it either, whose
   * writers fail; with that of a partial one, just this is gone.
   */
  delete(key: string): Promise<void>
  /** Everything that is there, what is partial included, in any order. What has no key of ours is not told. */
  list(): AsyncIterable<StoredArchive>
  stop(): Promise<void>
}

export interface WriteOptions {
  readonly signal: AbortSignal
  /** A guess at how much there will be. */
  readonly estimatedBytes?: number | undefined
}

export interface StoredArchive {
  /** What `delete` takes to remove this. */
  readonly key: string
  readonly isPartial: boolean
  /** 0 for a partial one where the storage does not say. */
  readonly sizeBytes: number
  /** Of a partial one: when it was begun, or last written to. */
  readonly modifiedAt: Date
}

export const ArchiveMissing = defineError('E_ARCHIVE_MISSING', 409, 'The file of the backup is not there')
