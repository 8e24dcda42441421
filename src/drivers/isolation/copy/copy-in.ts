/**
 * Imports a copy into separate storage, in one transaction of the owner: a killed import creates nothing.
 *
 *   making      the schema, its rights, and only the migrations of the copy: the tables are as they were
 *   loading     the rows (copy-load.ts)
 *   indexing    indexes, keys, sequences, views
 *   migrating   pending migrations, as for any other tenant
 */
import type pg from 'pg'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import { type Imported, StorageExists } from '../../../tenants/isolation/driver.ts'
import type { StorageRead } from '../migrations/migration-records.ts'
import type { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import { withRows } from './compatibility.ts'
import { type LoadOptions, loadCopy, type Target } from './copy-load.ts'

export interface OwnStorage extends Target {
  /** SQL that creates the schema and grants the rights. */
  readonly making: string
  readonly migrator: PostgresMigrator
}

/** Runs in a transaction that has the storage's lock. */
export async function copyIn(
  client: pg.ClientBase,
  storage: OwnStorage,
  read: StorageRead,
  copy: TenantCopy,
  { onPhase, log }: Pick<LoadOptions, 'onPhase' | 'log'>,
): Promise<Imported> {
  const { schema, searchPath, migrator } = storage
  if (read.ran.length > 0 || (await holdsSomething(client, schema))) throw isThere()
  await client.query(storage.making)
  const names = copy.description.migrations.map(({ name }) => name)
  await migrator.installOnly(client, schema, searchPath, names)
  const rows = await loadCopy(client, storage, copy, { onPhase, log })
  onPhase?.('migrating')
  const ran = await migrator.records(client, schema)
  const migrations = await migrator.install(client, schema, searchPath, { ...read, ran })
  await withRows(() => client.query('set constraints all immediate'))
  return { migrations, rows }
}

/** Prevents mixing of two copies. */
const isThere = () => StorageExists('The storage for the copy already exists; nothing was changed.')

/** Whether the schema has more than rights that were granted in advance. */
async function holdsSomething(client: pg.ClientBase, schema: string): Promise<boolean> {
  const { rows } = await client.query(
    `select exists (select from pg_namespace n join pg_depend on refclassid = 'pg_namespace'::regclass and refobjid = n.oid
       where nspname = $1 and classid <> 'pg_default_acl'::regclass) as any`,
    [schema],
  )
  return rows[0].any
}
