/**
 * Selects tenants by status and by a term in their ids, names and domains.
 *
 * `search_text` returns all of them in lower case, `search_starts` the first one and two characters of each. Their trigram indexes
 * require the extension `pg_trgm`; without it a search reads all tenants.
 */
import { type Expression, type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import type { Database } from '../../kernel/database/database.ts'
import { lockMigrations, runOnline } from '../../kernel/database/migrations.ts'
import type { Status } from '../tenant/lifecycle.ts'
import { SEARCH_INDEXES, type TenantRow, type TenantTables } from '../tenant/tables.ts'

/** Length of a trigram: a shorter term has none, except at the beginning of a value. */
const SHORTEST_PART = 3

const TEXT = sql<string>`multitenancy.search_text(id, name, domains)`
const STARTS = sql<string>`multitenancy.search_starts(id, name, domains)`
/** Every second or third trigram of a long word: each further one costs time, and selects few. */
const LONG_WORDS = /([\p{L}\p{N}]{3})(?=[\p{L}\p{N}]{2})/gu

export interface TenantSearch {
  readonly status?: Status
  /** Part of an id, name or domain; with fewer than three characters, its beginning. Case-insensitive. */
  readonly q?: string
  readonly includeDeleted?: boolean
}

export function tenantsMatching(
  database: Database,
  { status, q, includeDeleted }: TenantSearch,
): SelectQueryBuilder<TenantTables, 'tenants', TenantRow> {
  let query = database.query<TenantTables>().selectFrom('tenants').selectAll().where('purgedAt', 'is', null)
  if (status) query = query.where('status', '=', status)
  else if (!includeDeleted) query = query.where('status', '!=', 'deleted')
  return q ? query.where(matches(q)) : query
}

function matches(term: string): Expression<SqlBool> {
  const literal = term.replace(/[\\%_]/g, '\\$&')
  if ([...term].length < SHORTEST_PART) return sql`${STARTS} like lower(${`%\n${literal}\n%`})`
  const pattern = literal.replace(LONG_WORDS, '$1%')
  const parts = sql<boolean>`${TEXT} like lower(${`%${pattern}%`})`
  // The index has no use for strpos.
  return pattern === literal ? parts : sql`${parts} and strpos(${TEXT}, lower(${term})) > 0`
}

export type SearchIndex = 'present' | 'missing' | 'without-extension'

export async function searchIndex(database: Database): Promise<SearchIndex> {
  const { rows } = await database.sql(
    `select (select count(*) = 2 from pg_index
         where indexrelid in (to_regclass('multitenancy.tenants_search'), to_regclass('multitenancy.tenants_starts')) and indisvalid) as "isPresent",
       exists (select from pg_extension where extname = 'pg_trgm') as "hasExtension"`,
  )
  const [{ isPresent, hasExtension }] = rows as [{ isPresent: boolean; hasExtension: boolean }]
  if (isPresent) return 'present'
  return hasExtension ? 'missing' : 'without-extension'
}

/** Creates the indexes, unless they exist or lack their extension. Tenants may change meanwhile. */
export async function createSearchIndex(database: Database): Promise<void> {
  await database.session(async (client) => {
    await lockMigrations(client)
    if ((await searchIndex(database)) === 'missing') await runOnline(client, SEARCH_INDEXES)
  })
}
