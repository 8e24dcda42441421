/**
 * Compares the applied migrations of storages: two storages have one version if the same migrations with the same
 * content were applied. Independent of the database.
 */
import { createHash } from 'node:crypto'

export interface AppliedMigration {
  readonly name: string
  /** Empty: unknown, as no process of this installation has the migration. */
  readonly checksum: string
}

/** The version of storage that was not inspected. */
export const UNKNOWN_VERSION = ''
const VERSION_LENGTH = 32

export const versionOf = (applied: readonly AppliedMigration[]): string =>
  createHash('sha256')
    .update(JSON.stringify(applied.map(({ name, checksum }) => [name, checksum])))
    .digest('hex')
    .slice(0, VERSION_LENGTH)

/** Adds the checksums of the folder, otherwise those known `before`, to the names returned by a driver. */
export function withChecksums(
  names: readonly string[],
  folder: readonly AppliedMigration[],
  before: readonly AppliedMigration[] = [],
): AppliedMigration[] {
  const checksums = new Map([...before, ...folder].map(({ name, checksum }) => [name, checksum]))
  return names.map((name) => ({ name, checksum: checksums.get(name) ?? '' }))
}

/** Migrations of a storage after all pending ones: those of the folder, then unknown ones. */
export const upToDate = (
  folder: readonly AppliedMigration[],
  before: readonly AppliedMigration[],
): AppliedMigration[] => [...folder, ...before.filter(({ name }) => !folder.some((one) => one.name === name))]

export interface Comparison {
  readonly pending: readonly string[]
  /** Applied, but not in the folder. */
  readonly unknown: readonly string[]
  /** Applied, and changed in the folder since. */
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

/** The last migrations, newest first: those that a rollback of `steps` rolls back. */
export const lastOf = (applied: readonly AppliedMigration[], steps: number): string[] =>
  applied
    .map(({ name }) => name)
    .reverse()
    .slice(0, steps)
