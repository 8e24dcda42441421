/**
 * What has been run in a storage, as a value: two storages are of one version when the same migrations, with the same content,
 * have been run in them. Nothing here touches a database.
 */
import { createHash } from 'node:crypto'

export interface AppliedMigration {
  readonly name: string
  /** Empty: not known, as no process of ours has the migration. */
  readonly checksum: string
}

/** The version of storage that nobody has looked at. */
export const UNKNOWN_VERSION = ''
const VERSION_LENGTH = 32

export const versionOf = (applied: readonly AppliedMigration[]): string =>
  createHash('sha256')
    .update(JSON.stringify(applied.map(({ name, checksum }) => [name, checksum])))
    .digest('hex')
    .slice(0, VERSION_LENGTH)

/** Names that a driver answers, with the checksums of the folder, else those that were known `before`. */
export function withChecksums(
  names: readonly string[],
  folder: readonly AppliedMigration[],
  before: readonly AppliedMigration[] = [],
): AppliedMigration[] {
  const checksums = new Map([...before, ...folder].map(({ name, checksum }) => [name, checksum]))
  return names.map((name) => ({ name, checksum: checksums.get(name) ?? '' }))
}

/** What a storage has once everything pending has been run: the folder, then what only others know. */
export const upToDate = (
  folder: readonly AppliedMigration[],
  before: readonly AppliedMigration[],
): AppliedMigration[] => [...folder, ...before.filter(({ name }) => !folder.some((one) => one.name === name))]

export interface Comparison {
  readonly pending: readonly string[]
  /** Run, but not in the folder. */
  readonly unknown: readonly string[]
  /** Run, and changed in the folder since. */
  readonly edited: readonly string[]
}

export function compared(applied: readonly AppliedMigration[], folder: readonly AppliedMigration[]): Comparison {
  const run = new Map(applied.map(({ name, checksum }) => [name, checksum]))
  const inFolder = new Set(folder.map(({ name }) => name))
  return {
    pending: folder.filter(({ name }) => !run.has(name)).map(({ name }) => name),
    unknown: applied.filter(({ name }) => !inFolder.has(name)).map(({ name }) => name),
    edited: folder
      .filter(({ name, checksum }) => run.get(name) && checksum && run.get(name) !== checksum)
      .map(({ name }) => name),
  }
}

/** The last migrations, newest first: what a rollback of so many steps takes back. */
export const lastOf = (applied: readonly AppliedMigration[], steps: number): string[] =>
  applied
    .map(({ name }) => name)
    .reverse()
    .slice(0, steps)
