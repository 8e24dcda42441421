/**
 * Takes a copy into storage of its own, in one transaction of the owner: what is killed in the middle has made nothing.
 *
 *   making      the schema and its rights, and the migrations that the copy's storage had, no more: so its tables are as they were
 *   loading     the rows (copy-load.ts)
 *   indexing    indexes, keys, sequences, views
 *   migrating   what is pending, as in any other tenant
 */
import type pg from 'pg'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import { type Imported, StorageExists } from '../../../tenants/isolation/driver.ts'
import type { StorageRead } from '../migrations/migration-records.ts'
import type { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import { withRows } from './compatibility.ts'
import { type LoadOptions, loadCopy, type Target } from './copy-load.ts'

export interface OwnStorage extends Target {
  /** Makes the schema and gives the rights. */
  readonly making: string
  readonly migrator: PostgresMigrator
}

/** In a transaction that has the storage's lock. */
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

/** Two copies would become one. */
const isThere = () => StorageExists('The storage for the copy is there already; nothing was changed.')

/** Rights that are given in advance are all that may be there. */
async function holdsSomething(client: pg.ClientBase, schema: string): Promise<boolean> {
  const { rows } = await client.query(
    `select exists (select from pg_namespace n join pg_depend on refclassid = 'pg_namespace'::regclass and refobjid = n.oid
       where nspname = $1 and classid <> 'pg_default_acl'::regclass) as any`,
    [schema],
  )
  return rows[0].any
}
