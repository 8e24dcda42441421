/** Searches and removes rows of a tenant in all tables of the backoffice with a column `tenant_id`, and its row in `tenants`. */
import type { Database } from '../../kernel/database/database.ts'
import { deletionFrom } from '../../kernel/database/tenant-rows.ts'
import type { FoundData } from '../../kernel/erasable.ts'

/** The webhook and audit tables of a large service take long to read. */
const TIMEOUT_MS = 30 * 60_000

/** Tables of the core that a purge keeps, or empties elsewhere. */
const ALSO: ReadonlySet<string> = new Set(['outbox_received', 'storage_locations'])
/** The tombstone. */
const TOMBSTONE = 'erasures'
const OF_DISABLED = 'The table belongs to a satellite that is not enabled. Enable it, or drop the table.'

export interface Tables {
  /** `tenantTables` of the enabled parts. */
  readonly known: ReadonlySet<string>
  /** Tables that other systems search. */
  readonly elsewhere: ReadonlySet<string>
}

/** One statement for all tables. */
export async function findRows(database: Database, tenantId: string, tables: Tables): Promise<FoundData[]> {
  const all = await withTenants(database, tables)
  const counts = [
    ...all.map(({ sql }) => `select count(*) from ${sql} where tenant_id = $1`),
    'select count(*) from multitenancy.tenants where id = $1 and purged_at is null',
  ]
  const text = `select array[${counts.map((count) => `(${count})`).join(', ')}]::float8[] as counts`
  const [{ counts: found }] = (await database.sql({ text, timeoutMs: TIMEOUT_MS }, [tenantId])).rows
  return [...all, { name: 'tenants', isOwned: true }]
    .map(({ name, isOwned }, index) => ({ kind: name, count: found[index], ...(isOwned ? {} : { kept: OF_DISABLED }) }))
    .filter(({ count }) => count > 0)
}

export async function removeRows(database: Database, tenantId: string, tables: Tables): Promise<void> {
  const owned = (await withTenants(database, tables)).filter(({ isOwned }) => isOwned)
  await database.sql({ text: deletionFrom(owned.map(({ sql }) => sql)), timeoutMs: TIMEOUT_MS }, [tenantId])
}

interface Table {
  readonly name: string
  readonly sql: string
  /** Whether an enabled part owns it. */
  readonly isOwned: boolean
}

/** From the catalog: a table that no part declares is found, too. */
async function withTenants(database: Database, { known, elsewhere }: Tables): Promise<Table[]> {
  const { rows } = await database.sql(
    `select relname as name, t.oid::regclass::text as sql from pg_class t join pg_attribute on attrelid = t.oid
     where relnamespace = 'multitenancy'::regnamespace and relkind in ('r', 'p') and not relispartition
       and attname = 'tenant_id' and not attisdropped order by 1`,
  )
  return rows
    .filter(({ name }) => name !== TOMBSTONE && !elsewhere.has(name))
    .map(({ name, sql }) => ({ name, sql, isOwned: known.has(name) || ALSO.has(name) }))
}
