/** Searches and removes rows of a tenant in all tables of the backoffice with a column `tenant_id`, and its row in `tenants`. */
import type { Database } from '../../kernel/database/database.ts'
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

export async function findRows(database: Database, tenantId: string, tables: Tables): Promise<FoundData[]> {
  const found: FoundData[] = []
  for (const table of await withTenants(database, tables)) {
    const count = await counted(database, `select count(*) as count from ${table.sql} where tenant_id = $1`, tenantId)
    if (count > 0) found.push({ kind: table.name, count, ...(table.isOwned ? {} : { kept: OF_DISABLED }) })
  }
  const own = await counted(
    database,
    'select count(*) as count from multitenancy.tenants where id = $1 and purged_at is null',
    tenantId,
  )
  return own > 0 ? [...found, { kind: 'tenants', count: own }] : found
}

export async function removeRows(database: Database, tenantId: string, tables: Tables): Promise<void> {
  for (const { sql, isOwned } of await withTenants(database, tables)) {
    if (isOwned) {
      await database.sql({ text: `delete from ${sql} where tenant_id = $1`, timeoutMs: TIMEOUT_MS }, [tenantId])
    }
  }
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

async function counted(database: Database, text: string, tenantId: string): Promise<number> {
  return (await database.sql({ text, timeoutMs: TIMEOUT_MS }, [tenantId])).rows[0].count
}
