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

import { existingIn } from '../catalog/tables.ts'
import type { PostgresDialect } from '../postgres-dialect.ts'
import { LOADING, setting } from '../transactions/copy-session.ts'
import { differences } from './differences.ts'
import { assertNoRows, dropObjects } from './former-objects.ts'
import { assertSafeObjects, grantRights } from './imported-objects.ts'
import { RestrictedRole } from './restricted-role.ts'

type ImportTables = NonNullable<PostgresDialect['importTables']>

export const importTables: ImportTables = (storage, fill, { baseline, finish, hold }) =>
  storage.migrating(
    async (client, read) => {
      const { schema, searchPath, server, migrator } = storage
      await client.query(`${setting(LOADING)}; set local search_path = pg_catalog`)
      await assertNoRows(client, schema)
      const isUpToDate = migrator.isUpToDate(read.ran.map(({ name }) => name))
      const before = isUpToDate && read.ran.length > 0 ? await existingIn(client, schema, searchPath) : undefined
      await dropObjects(client, schema)
      const role = await RestrictedRole.create(client, { schema, searchPath })
      await fill(role)
      await role.end()
      await assertSafeObjects(client, schema, role.name)
      await role.leave()
      await grantRights(client, schema, server.scopeRole)
      const ran = await migrator.recordBaseline(client, schema, baseline)
      const migrations = await migrator.install(client, schema, searchPath, { ...read, ran })
      const after = before ? await existingIn(client, schema, searchPath) : undefined
      return { migrations, differences: before && after ? differences(before, after) : [] }
    },
    { hold, finish, isTemporary: true },
  )
