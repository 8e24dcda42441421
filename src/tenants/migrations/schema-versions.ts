/**
 * Stores schema versions by their digest. Rows are never changed.
 *
 * The cache contains committed versions only, because a cached version is not written again.
 */
import type { Database } from '../../kernel/database/database.ts'
import type { Capabilities } from '../isolation/driver.ts'
import type { TenantMigration } from '../isolation/migrations.ts'
import { type AppliedMigration, UNKNOWN_VERSION, versionOf, withChecksums } from '../tenant/schema-version.ts'
import type { TenantTables } from '../tenant/tables.ts'

export class SchemaVersions {
  /** The host's migrations in this process. */
  readonly folder: readonly AppliedMigration[]
  readonly #database: Database
  readonly #kept = new Map<string, readonly AppliedMigration[]>()

  constructor(database: Database, migrations: readonly TenantMigration[]) {
    this.#database = database
    this.folder = migrations.map(({ name, checksum }) => ({ name, checksum }))
  }

  /** The migrations of a version; undefined if it is unknown. */
  async of(version: string): Promise<readonly AppliedMigration[] | undefined> {
    if (version === UNKNOWN_VERSION) return undefined
    const kept = this.#kept.get(version)
    if (kept) return kept
    const row = await this.#database
      .query<TenantTables>()
      .selectFrom('schemaVersions')
      .select('migrations')
      .where('version', '=', version)
      .executeTakeFirst()
    if (row) this.#database.afterCommit(() => this.#kept.set(version, row.migrations))
    return row?.migrations
  }

  /** Stores a version and returns its name for the row of a tenant. */
  async keep(migrations: readonly AppliedMigration[]): Promise<string> {
    const version = versionOf(migrations)
    if (this.#kept.has(version)) return version
    await this.#database
      .query<TenantTables>()
      .insertInto('schemaVersions')
      .values({ version, migrations: JSON.stringify(migrations) })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    this.#database.afterCommit(() => this.#kept.set(version, migrations))
    return version
  }

  /** Stores the version of a storage by the names of its migrations. Storage that is not durable has no version. */
  async ofStorage({ durable }: Capabilities, names: readonly string[]): Promise<string> {
    return durable ? this.keep(withChecksums(names, this.folder)) : UNKNOWN_VERSION
  }
}
