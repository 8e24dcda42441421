/**
 * Imports a dump with tables into the storage of a tenant.
 *
 *   transaction at the server ─► statements, rows, migrations ─► transaction in the backoffice:
 *                                  the tenant's row is locked, its storage location is the same and no move has begun,
 *                                  the schema version is written, and the server commits
 *
 * The commit in the backoffice follows. If it fails, the tables exist and the schema version is that of before: the next
 * run of migrations reads the records of the storage.
 */
import { DependencyUnavailable, invalid } from '../../../kernel/base/errors.ts'
import { isDatabaseUnavailable } from '../../../kernel/database/database.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { NotSupported, type StorageLocation } from '../../isolation/driver.ts'
import type { Storage } from '../../isolation/drivers.ts'
import type { TableChanges } from '../../isolation/schema-generation.ts'
import type { SchemaVersions } from '../../migrations/schema-versions.ts'
import { type Registry, toLocation } from '../../registry/registry.ts'
import { lockTenant } from '../../registry/tenant-assertions.ts'
import { TenantState } from '../../tenant/errors.ts'
import { TenantMigrated } from '../../tenant/events.ts'
import { UNKNOWN_VERSION } from '../../tenant/schema-version.ts'
import type { TenantRow, TenantTables } from '../../tenant/tables.ts'
import { toRolledBack } from '../errors.ts'
import { type TableImportTotals, TablesRun, type TablesRunOptions } from './tables-run.ts'

export interface ImportTablesOptions extends TablesRunOptions {
  /** The last migration whose tables the file contains. Required if the host has migrations. */
  readonly baseline?: string | undefined
  /** Whether to run and check the whole file, and roll it back. */
  readonly isDryRun?: boolean | undefined
}

export interface TableImportDependencies {
  readonly kernel: Kernel
  readonly registry: Registry
  readonly storage: Storage
  readonly versions: SchemaVersions
  readonly changes: TableChanges
}

export class TableImports {
  readonly #dependencies: TableImportDependencies

  constructor(dependencies: TableImportDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Throws `E_INVALID_REQUEST` with line and kind of a statement that is not accepted, `E_SQL_REJECTED` for an error of
   * the server, `E_STORAGE_EXISTS` if a table of the tenant has rows, `E_NOT_SUPPORTED` if tenants share tables, and
   * `E_TENANT_STATE` unless the tenant is active.
   *
   * @example
   *   await tenants.tableImports.run('acme', createReadStream('app.sql'), { baseline: '0012_invoices', signal })
   */
  async run(
    id: string,
    file: AsyncIterable<Uint8Array>,
    { baseline, isDryRun = false, ...options }: ImportTablesOptions,
  ): Promise<TableImportTotals> {
    const { registry, storage, changes } = this.#dependencies
    const { signal } = options
    const row = await registry.row(id)
    const location = toLocation(row)
    const driver = storage.driver(location.isolation)
    if (!driver.importTables) throw sharesTables(location.isolation)
    assertActive(row)
    this.#assertBaseline(baseline)
    signal.throwIfAborted()
    await changes.notify()
    let run: TablesRun | undefined
    try {
      await driver.importTables(
        location,
        async (tables) => {
          run = new TablesRun(tables, options)
          await run.file(file)
        },
        {
          baseline,
          signal,
          finish: async ({ migrations, differences }, commit) => {
            if (!run) throw new Error('the driver has not run the import')
            run.totals.differences = differences
            if (!isDryRun) await this.#commit(location, migrations, { baseline, totals: run.totals }, commit)
          },
        },
      )
    } catch (error) {
      signal.throwIfAborted()
      throw toRolledBack(isDatabaseUnavailable(error) ? unavailable(error) : error)
    }
    if (!run) throw new Error('the driver has not run the import')
    return run.totals
  }

  #assertBaseline(baseline: string | undefined): void {
    const names = this.#dependencies.versions.folder.map(({ name }) => name)
    if (baseline === undefined ? names.length === 0 : names.includes(baseline)) return
    const words =
      names.length === 0
        ? 'The host has no migrations.'
        : `Name the last migration whose tables the file contains: one of ${names.join(', ')}.`
    throw invalid([{ path: 'baseline', message: words }])
  }

  async #commit(
    location: StorageLocation,
    names: readonly string[],
    { baseline, totals }: { readonly baseline: string | undefined; readonly totals: TableImportTotals },
    commit: () => Promise<void>,
  ): Promise<void> {
    const { kernel, storage, versions, changes, registry } = this.#dependencies
    const { database, events, clock } = kernel
    const { tenantId } = location
    await database.transaction(async () => {
      const schemaVersion = await versions.ofStorage(storage.driver(location.isolation).capabilities, names)
      const row = assertActive(await lockTenant(database, tenantId))
      if (row.heldBy !== null || !isSame(toLocation(row), location)) {
        throw TenantState(`The storage of tenant "${tenantId}" is being moved or was replaced during the import.`, {
          extras: { from: row.status },
        })
      }
      const before = (await versions.of(row.schemaVersion ?? UNKNOWN_VERSION)) ?? []
      await database
        .query<TenantTables>()
        .updateTable('tenants')
        .set({ schemaVersion, updatedAt: clock.now() })
        .where('id', '=', tenantId)
        .execute()
      const { statements, rows } = totals
      await recordChange(events, {
        action: 'tenants.importTables',
        tenantId,
        target: `tenant:${tenantId}`,
        after: { baseline: baseline ?? null, statements, rows },
      })
      const migrations = names.filter((name) => !before.some((one) => one.name === name))
      if (migrations.length > 0) await events.publish(TenantMigrated, { tenantId, migrations, direction: 'up' })
      await changes.notify()
      await registry.changed(tenantId)
      await commit()
    })
  }
}

function assertActive(row: TenantRow): TenantRow {
  if (row.status === 'active') return row
  throw TenantState(`Tenant "${row.id}" is ${row.status}. Tables are imported into an active tenant only.`, {
    extras: { from: row.status },
  })
}

const unavailable = (cause: unknown) =>
  DependencyUnavailable('The database server of the tenant is unavailable.', { cause })

const isSame = (one: StorageLocation, other: StorageLocation): boolean =>
  one.isolation === other.isolation &&
  one.placement === other.placement &&
  one.locator === other.locator &&
  one.epoch === other.epoch

const sharesTables = (isolation: string) =>
  NotSupported(
    `The isolation driver "${isolation}" has no tables of a single tenant: tables of a file would be tables of all tenants. ` +
      'Create the tables by migrations, and import the rows of pg_dump --data-only without --with-tables; or use schema-pg or database-pg.',
  )
