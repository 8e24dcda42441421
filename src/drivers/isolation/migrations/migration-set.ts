/** Compares the host's migrations with the records of a storage: pending, revertible and rejected migrations. */
import { BackupIncompatible } from '../../../tenants/isolation/copy.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import { type AppliedMigration, compared } from '../../../tenants/tenant/schema-version.ts'

/** The record of a migration in a storage. */
export interface Ran {
  readonly name: string
  readonly checksum: string
}

/** A migration that can be rolled back. */
export type Reversible = TenantMigration & Required<Pick<TenantMigration, 'down'>>

/**
 * Names of the applied migrations in the order of the folder; unknown ones are last. Throws if one was changed after it
 * was run.
 */
export function appliedOf(migrations: readonly TenantMigration[], kept: readonly Ran[]): string[] {
  const edited = kept.find(({ name, checksum }) =>
    migrations.some((one) => one.name === name && one.checksum !== checksum),
  )
  if (edited) {
    throw MigrationFailed(
      `The migration ${edited.name} was changed after it was run. Restore it and add a new migration.`,
    )
  }
  return inOrder(migrations, kept).map(({ name }) => name)
}

/** Applied migrations in the order of the folder; unknown ones are last. */
export function inOrder(migrations: readonly TenantMigration[], kept: readonly Ran[]): Ran[] {
  const rest = new Map(kept.map((ran) => [ran.name, ran]))
  const known = migrations.flatMap(({ name }) => rest.get(name) ?? [])
  for (const { name } of known) rest.delete(name)
  return [...known, ...rest.values()]
}

/** Throws `E_BACKUP_INCOMPATIBLE` if a copy was read from storage whose migrations are unknown or different here. */
export function assertKnownMigrations(
  migrations: readonly TenantMigration[],
  copied: readonly AppliedMigration[],
): void {
  const { unknown, edited } = compared(copied, migrations)
  const details = [
    ...(unknown.length > 0 ? [`unknown here: ${unknown.join(', ')}`] : []),
    ...(edited.length > 0 ? [`changed since: ${edited.join(', ')}`] : []),
  ]
  if (details.length === 0) return
  throw BackupIncompatible(
    `The copy was read from storage with other migrations than those here (${details.join('; ')}).`,
  )
}

/** @param applied result of `appliedOf`, also below */
export const pendingOf = (migrations: readonly TenantMigration[], applied: readonly string[]): TenantMigration[] =>
  migrations.filter(({ name }) => !applied.includes(name))

/** The last `steps`, newest first. Throws before the first rollback if one of them cannot be rolled back. */
export const lastOf = (
  migrations: readonly TenantMigration[],
  applied: readonly string[],
  steps: number,
): Reversible[] =>
  [...applied]
    .reverse()
    .slice(0, steps)
    .map((name) => {
      const migration = migrations.find((one) => one.name === name)
      if (!migration)
        throw MigrationFailed(`The migration ${name} is unknown here. Use a version of the host that has it.`)
      if (!isReversible(migration)) {
        throw MigrationFailed(`The migration ${name} cannot be rolled back because it has no "down".`)
      }
      return migration
    })

const isReversible = (migration: TenantMigration): migration is Reversible => migration.down !== undefined
