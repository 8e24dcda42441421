/** The host's migrations against what a storage says has been run in it: what is pending, what is taken back, what is refused. */
import { BackupIncompatible } from '../../../tenants/isolation/copy.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import { type AppliedMigration, compared } from '../../../tenants/tenant/schema-version.ts'

/** As a storage keeps it. */
export interface Ran {
  readonly name: string
  readonly checksum: string
}

/** A migration that can be taken back. */
export type Reversible = TenantMigration & Required<Pick<TenantMigration, 'down'>>

/**
 * Names of what has been run, in the order of the folder; what is known here no more comes last. Throws when one was changed
 * after it had been run.
 */
export function appliedOf(migrations: readonly TenantMigration[], kept: readonly Ran[]): string[] {
  const edited = kept.find(({ name, checksum }) =>
    migrations.some((one) => one.name === name && one.checksum !== checksum),
  )
  if (edited) {
    throw MigrationFailed(
      `The migration ${edited.name} was changed after it had been run; put it back and add a new one.`,
    )
  }
  return inOrder(migrations, kept).map(({ name }) => name)
}

/** What has been run, in the order of the folder; what is known here no more comes last. */
export function inOrder(migrations: readonly TenantMigration[], kept: readonly Ran[]): Ran[] {
  const rest = new Map(kept.map((ran) => [ran.name, ran]))
  const known = migrations.flatMap(({ name }) => rest.get(name) ?? [])
  for (const { name } of known) rest.delete(name)
  return [...known, ...rest.values()]
}

/** Throws `E_BACKUP_INCOMPATIBLE` when a copy was read from storage whose migrations are not known here, or are others now. */
export function assertKnownMigrations(
  migrations: readonly TenantMigration[],
  copied: readonly AppliedMigration[],
): void {
  const { unknown, edited } = compared(copied, migrations)
  const details = [
    ...(unknown.length > 0 ? [`not known here: ${unknown.join(', ')}`] : []),
    ...(edited.length > 0 ? [`changed since: ${edited.join(', ')}`] : []),
  ]
  if (details.length === 0) return
  throw BackupIncompatible(
    `The copy was read from storage with other migrations than those here (${details.join('; ')}).`,
  )
}

/** @param applied as `appliedOf` answered it, also below. */
export const pendingOf = (migrations: readonly TenantMigration[], applied: readonly string[]): TenantMigration[] =>
  migrations.filter(({ name }) => !applied.includes(name))

/** The last `steps`, newest first. Throws before any is taken back when one of them cannot be. */
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
      if (!migration) throw MigrationFailed(`The migration ${name} is not known here; run what knows it.`)
      if (!isReversible(migration)) {
        throw MigrationFailed(`The migration ${name} cannot be taken back: it has no "down".`)
      }
      return migration
    })

const isReversible = (migration: TenantMigration): migration is Reversible => migration.down !== undefined
