/** The host's migrations against what a storage says has been run in it: what is pending, what is taken back, what is refused. */
import { defineError } from '../../kernel/errors.ts'
import type { TenantMigration } from '../../tenants/migrations.ts'

export const MigrationFailed = defineError('E_MIGRATION_FAILED', 409, 'A tenant migration failed')

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
  const applied = new Set(kept.map(({ name }) => name))
  const known = migrations.map(({ name }) => name)
  return [...known.filter((name) => applied.delete(name)), ...applied]
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
