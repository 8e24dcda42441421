/**
 * The versions that tenants' storages have, kept by their digest: rows are added and never changed. One is remembered here once it
 * has been committed, as what is remembered is not written again.
 */
import type { Database } from '../../kernel/database/database.ts'
import type { Capabilities } from '../isolation/driver.ts'
import type { TenantMigration } from '../isolation/migrations.ts'
import { type AppliedMigration, UNKNOWN_VERSION, versionOf, withChecksums } from '../tenant/schema-version.ts'
import type { TenantTables } from '../tenant/tables.ts'

export class SchemaVersions {
  /** The host's migrations, as this process knows them. */
  readonly folder: readonly AppliedMigration[]
  readonly #database: Database
  readonly #kept = new Map<string, readonly AppliedMigration[]>()

  constructor(database: Database, migrations: readonly TenantMigration[]) {
    this.#database = database
    this.folder = migrations.map(({ name, checksum }) => ({ name, checksum }))
  }

  /** What a version stands for; undefined when it is not known. */
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

  /** Returns its name, which a tenant's row may then carry. */
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

  /** As `keep`, for storage of which a driver names what has been run. What does not outlast its process has no version. */
  async ofStorage({ durable }: Capabilities, names: readonly string[]): Promise<string> {
    return durable ? this.keep(withChecksums(names, this.folder)) : UNKNOWN_VERSION
  }
}
