/**
 * Runs the host's migrations in one tenant's database: those of one call are one transaction, in which nobody else sees or
 * changes anything, and their records are kept in the same database. Only migrations written in TypeScript: SQL is written for
 * one engine, and the folder's is PostgreSQL's.
 */
import { Kysely } from 'kysely'
import { tenantDialect } from '../../../tenants/handles/kysely.ts'
import type { MigrateOptions } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import type { AppliedMigration } from '../../../tenants/tenant/schema-version.ts'
import { appliedOf, assertKnownMigrations, inOrder, lastOf, pendingOf, type Ran } from '../migrations/migration-set.ts'
import { MIGRATIONS_TABLE } from './authorizer.ts'
import { SqliteConnection } from './connection.ts'
import { SqliteError } from './errors.ts'
import type { SqliteStorage } from './storage.ts'
import type { Query } from './tables.ts'

const LOCK_TIMEOUT_MS = 10_000

type Step = TenantMigration['up']

export class SqliteMigrator {
  readonly #migrations: readonly TenantMigration[]

  constructor(migrations: readonly TenantMigration[]) {
    this.#migrations = migrations
  }

  /** Before anything is made: a set with SQL in it is refused, naming the first that is. */
  assertNoSql(): void {
    for (const { name, up, down } of this.#migrations) if (isSql(up) || isSql(down)) throw sqlRejection(name)
  }

  /** Brings a storage up to date. Returns everything it has now, in order. */
  install(storage: SqliteStorage): Promise<string[]> {
    return this.#alone(storage, async (connection) => {
      const applied = this.#applied(storage)
      return [...applied, ...(await this.#run(storage, connection, pendingOf(this.#migrations, applied)))]
    })
  }

  /** Runs these alone, in the order of the folder, in storage that has none of them. */
  async installOnly(storage: SqliteStorage, names: readonly string[]): Promise<void> {
    const wanted = this.#migrations.filter(({ name }) => names.includes(name))
    await this.#alone(storage, async (connection) => {
      this.#applied(storage)
      await this.#run(storage, connection, wanted)
    })
  }

  /** Throws `E_BACKUP_INCOMPATIBLE`, naming migrations that cannot be run here as they were. */
  assertKnownMigrations(copied: readonly AppliedMigration[]): void {
    assertKnownMigrations(this.#migrations, copied)
  }

  /** What a database says has been run in it, whether it is the same here or not. */
  recorded(query: Query): Ran[] {
    return inOrder(this.#migrations, query(`select name, checksum from ${MIGRATIONS_TABLE} order by rowid`))
  }

  /** Runs what is pending, in order. Throws `E_MIGRATION_FAILED`, naming the migration. */
  up(storage: SqliteStorage, options?: MigrateOptions): Promise<string[]> {
    return this.#alone(
      storage,
      (connection) => this.#run(storage, connection, pendingOf(this.#migrations, this.#applied(storage))),
      options,
    )
  }

  /** Takes back the last `steps`, newest first. */
  down(storage: SqliteStorage, steps: number, options?: MigrateOptions): Promise<string[]> {
    return this.#alone(
      storage,
      async (connection) => {
        const last = lastOf(this.#migrations, this.#applied(storage), steps)
        for (const { name, down } of last) {
          await run(connection, name, 'down', down)
          storage.database.own(`delete from ${MIGRATIONS_TABLE} where name = ?`, [name])
        }
        return last.map(({ name }) => name)
      },
      options,
    )
  }

  /** What has been run and not taken back, in order; what is known here no more comes last. */
  applied(storage: SqliteStorage): Promise<string[]> {
    return this.#alone(storage, async () => this.#applied(storage))
  }

  async #run(
    storage: SqliteStorage,
    connection: SqliteConnection,
    pending: readonly TenantMigration[],
  ): Promise<string[]> {
    for (const { name, checksum, up } of pending) {
      await run(connection, name, 'up', up)
      storage.database.own(`insert into ${MIGRATIONS_TABLE} (name, checksum) values (?, ?)`, [name, checksum])
    }
    return pending.map(({ name }) => name)
  }

  #applied({ database }: SqliteStorage): string[] {
    database.own(`create table if not exists ${MIGRATIONS_TABLE} (
      name text not null primary key, checksum text not null,
      applied_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')))`)
    return appliedOf(this.#migrations, this.recorded(database.own.bind(database)))
  }

  async #alone<T>(
    storage: SqliteStorage,
    work: (connection: SqliteConnection) => Promise<T>,
    { lockTimeoutMs = LOCK_TIMEOUT_MS }: MigrateOptions = {},
  ): Promise<T> {
    const connection = new SqliteConnection(storage, { passesFence: true, waitMs: lockTimeoutMs })
    try {
      await connection.begin()
      await connection.enter()
      const result = await work(connection)
      await connection.end('commit')
      return result
    } finally {
      connection.release()
    }
  }
}

async function run(connection: SqliteConnection, name: string, direction: 'up' | 'down', step: Step): Promise<void> {
  if (isSql(step)) throw sqlRejection(name)
  try {
    await step(inside(connection))
  } catch (error) {
    const detail = error instanceof SqliteError ? ` (SQLSTATE ${error.code})` : ''
    throw MigrationFailed(`The migration ${name} (${direction}) failed${detail}; the log has the full text.`, {
      cause: error,
    })
  }
  if (connection.hasFailed) {
    throw MigrationFailed(`The migration ${name} (${direction}) goes on after a statement in it has failed.`)
  }
}

/** Kysely over the transaction of the migrations, which is theirs to end. */
function inside(connection: SqliteConnection): Kysely<any> {
  const rejected = async (): Promise<never> => {
    throw new Error('a migration already runs in a transaction')
  }
  const source = { id: '', execute: connection.query.bind(connection), begin: rejected }
  return new Kysely<any>({ dialect: tenantDialect(() => source, 'sqlite') })
}

const isSql = (step: Step | undefined): step is string => typeof step === 'string'

const sqlRejection = (name: string) =>
  MigrationFailed(
    `The migration ${name} is written in SQL, which sqlite-memory does not run: ` +
      `write it as ${name}.ts with up(db) and down(db) over Kysely, or keep these tenants with a PostgreSQL driver.`,
  )
