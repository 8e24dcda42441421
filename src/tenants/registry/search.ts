/**
 * Selects tenants by status and by a term in their ids, names and domains.
 *
 * The function `search_text` returns all of them in lower case. Its trigram index requires the extension `pg_trgm`; without it a search
 * reads all tenants.
 */
import { type SelectQueryBuilder, sql } from 'kysely'
import type { Database } from '../../kernel/database/database.ts'
import { lockMigrations, runOnline } from '../../kernel/database/migrations.ts'
import type { Status } from '../tenant/lifecycle.ts'
import { SEARCH_INDEX, type TenantRow, type TenantTables } from '../tenant/tables.ts'

/** Length of a trigram: a shorter term has none, except at the beginning of a value. */
const SHORTEST_PART = 3

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
  return q ? query.where(sql<boolean>`multitenancy.search_text(id, name, domains) like lower(${patternOf(q)})`) : query
}

function patternOf(term: string): string {
  const literal = term.replace(/[\\%_]/g, '\\$&')
  return [...term].length < SHORTEST_PART ? `%\n${literal}%` : `%${literal}%`
}

export type SearchIndex = 'present' | 'missing' | 'without-extension'

export async function searchIndex(database: Database): Promise<SearchIndex> {
  const { rows } = await database.sql(
    `select exists (select from pg_index where indexrelid = to_regclass('multitenancy.tenants_search') and indisvalid) as "isPresent",
       exists (select from pg_extension where extname = 'pg_trgm') as "hasExtension"`,
  )
  const [{ isPresent, hasExtension }] = rows as [{ isPresent: boolean; hasExtension: boolean }]
  if (isPresent) return 'present'
  return hasExtension ? 'missing' : 'without-extension'
}

/** Creates the index, unless it exists or lacks its extension. Tenants may change meanwhile. */
export async function createSearchIndex(database: Database): Promise<void> {
  await database.session(async (client) => {
    await lockMigrations(client)
    if ((await searchIndex(database)) === 'missing') await runOnline(client, SEARCH_INDEX)
  })
}
