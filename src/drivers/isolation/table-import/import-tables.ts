/**
 * Imports tables into separate storage in one transaction of the owner: a failed or killed import changes nothing.
 *
 *   check      no table of the storage has rows
 *   replace    the empty tables of migrations are dropped
 *   fill       statements of the file, with the rights of a temporary role (restricted-role.ts)
 *   inspect    the created objects, from the catalog (imported-objects.ts)
 *   hand over  owner and rights as for tables from migrations
 *   migrate    migrations up to the baseline are recorded as applied, later ones run
 *   compare    with the tables that the migrations had created before
 */

import type pg from 'pg'
import type { ImportedTables, TableImport } from '../../../tenants/isolation/table-import.ts'
import { existingIn } from '../catalog/tables.ts'
import type { StorageRead } from '../migrations/migration-records.ts'
import type { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import { LOADING, setting } from '../transactions/copy-session.ts'
import { differences } from './differences.ts'
import { assertNoRows, dropObjects } from './former-objects.ts'
import { assertSafeObjects, grantRights } from './imported-objects.ts'
import { RestrictedRole, type RestrictedSchema } from './restricted-role.ts'

interface ImportedStorage extends RestrictedSchema {
  readonly migrator: PostgresMigrator
  readonly scopeRole: string
  /** The last migration whose tables the file contains. */
  readonly baseline: string | undefined
}

/** Runs in a transaction that has the storage's lock. */
export async function importTables(
  client: pg.ClientBase,
  { schema, searchPath, migrator, scopeRole, baseline }: ImportedStorage,
  read: StorageRead,
  fill: (tables: TableImport) => Promise<void>,
): Promise<ImportedTables> {
  await client.query(`${setting(LOADING)}; set local search_path = pg_catalog, pg_temp`)
  await assertNoRows(client, schema)
  const isUpToDate = migrator.isUpToDate(read.ran.map(({ name }) => name))
  const before = isUpToDate && read.ran.length > 0 ? await existingIn(client, schema, searchPath) : undefined
  await dropObjects(client, schema)
  const role = await RestrictedRole.create(client, { schema, searchPath })
  await fill(role)
  await role.end()
  await assertSafeObjects(client, schema, role.name)
  await role.leave()
  await grantRights(client, schema, scopeRole)
  const ran = await migrator.recordBaseline(client, schema, baseline)
  const migrations = await migrator.install(client, schema, searchPath, { ...read, ran })
  const after = before ? await existingIn(client, schema, searchPath) : undefined
  return { migrations, differences: before && after ? differences(before, after) : [] }
}
