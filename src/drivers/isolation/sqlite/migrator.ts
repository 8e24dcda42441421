/**
 * Runs the host's migrations in the storage of one tenant, those of one call in one transaction. Accepts migrations in
 * TypeScript only: the SQL of the folder is PostgreSQL's.
 */
import { Kysely } from 'kysely'
import { tenantDialect } from '../../../tenants/handles/kysely.ts'
import type { MigrateOptions } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import { appliedOf, lastOf, pendingOf } from '../migrations/migration-set.ts'
import { SqliteConnection } from './connection.ts'
import type { SqliteStorage } from './storage.ts'

const LOCK_TIMEOUT_MS = 10_000

type Direction = 'up' | 'down'

export class SqliteMigrator {
  readonly #migrations: readonly TenantMigration[]

  constructor(migrations: readonly TenantMigration[]) {
    this.#migrations = migrations
  }

  /** Names of the applied migrations, in order; unknown ones are last. */
  applied({ migrations }: SqliteStorage): string[] {
    return appliedOf(this.#migrations, migrations)
  }

  /** Returns the names of the migrations that it ran. Throws `E_MIGRATION_FAILED`, naming the migration. */
  up(storage: SqliteStorage, options?: MigrateOptions): Promise<string[]> {
    return this.#run(storage, 'up', (applied) => pendingOf(this.#migrations, applied), options)
  }

  /** Rolls back the last `steps` migrations, newest first. */
  down(storage: SqliteStorage, steps: number, options?: MigrateOptions): Promise<string[]> {
    return this.#run(storage, 'down', (applied) => lastOf(this.#migrations, applied, steps), options)
  }

  async #run(
    storage: SqliteStorage,
    direction: Direction,
    choose: (applied: readonly string[]) => readonly TenantMigration[],
    { lockTimeoutMs = LOCK_TIMEOUT_MS }: MigrateOptions = {},
  ): Promise<string[]> {
    const connection = new SqliteConnection(storage, { passesFence: true, waitMs: lockTimeoutMs })
    try {
      await connection.begin()
      await connection.enter()
      const chosen = choose(this.applied(storage))
      const names = chosen.map(({ name }) => name)
      for (const migration of chosen) await run(connection, migration, direction)
      await connection.end('commit', () => {
        const others = storage.migrations.filter(({ name }) => !names.includes(name))
        storage.migrations = direction === 'up' ? [...others, ...chosen] : others
      })
      return names
    } finally {
      connection.release()
    }
  }
}

async function run(connection: SqliteConnection, migration: TenantMigration, direction: Direction): Promise<void> {
  const { name, [direction]: step } = migration
  if (typeof step !== 'function') {
    throw MigrationFailed(
      `The migration ${name} is written in SQL, which sqlite-memory does not run: ` +
        `write it as ${name}.ts with up(db) and down(db) over Kysely, or use a PostgreSQL driver for these tenants.`,
    )
  }
  try {
    await step(databaseOf(connection))
  } catch (error) {
    throw MigrationFailed(`The migration ${name} (${direction}) failed; the log has the full text.`, { cause: error })
  }
  if (connection.hasFailed) {
    throw MigrationFailed(`The migration ${name} (${direction}) continued after a statement in it had failed.`)
  }
}

/** Kysely inside the transaction of the migrations, which a migration cannot end. */
function databaseOf(connection: SqliteConnection): Kysely<any> {
  const begin = async (): Promise<never> => {
    throw new Error('a migration already runs in a transaction')
  }
  const source = { id: '', execute: connection.query.bind(connection), begin }
  return new Kysely<any>({ dialect: tenantDialect(() => source, 'sqlite') })
}
