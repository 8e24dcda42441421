/**
 * Selects tenants by status and by a term in their ids, names and domains.
 *
 * The generated column `tenants.search` has all of them in lower case, `tenants.starts` the first one and two characters of each. Their
 * trigram indexes require the extension `pg_trgm`; without it a search reads all tenants. Signs have no trigrams: tenants with three of
 * them in a row, or one at the beginning of a value, have a separate index.
 */
import { type Expression, type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import type { Database } from '../../kernel/database/database.ts'
import type { Status } from '../tenant/lifecycle.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'

/** Length of a trigram: a shorter term has none, except at the beginning of a value. */
const SHORTEST_PART = 3

/** Signs in ASCII, which are the same in upper and lower case: three in a row, or the beginning of a short term. */
const SIGNS = /[ -/:-@[-`{-~]{3}/
const SIGN_FIRST = /^[ -/:-@[-`{-~]/
/** The predicate of the index `tenants_signs`. */
const HAS_SIGNS = sql<boolean>`search ~ '\\n[^a-z0-9]|[^a-z0-9\\n]{3}'`
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
  if ([...term].length < SHORTEST_PART) {
    const starts = sql<boolean>`starts like lower(${`%\n${literal}\n%`})`
    return SIGN_FIRST.test(term) ? sql`${starts} and ${HAS_SIGNS}` : starts
  }
  const pattern = literal.replace(LONG_WORDS, '$1%')
  const parts = sql<boolean>`search like lower(${`%${pattern}%`})`
  // The index has no use for strpos.
  const whole = pattern === literal ? parts : sql<boolean>`${parts} and strpos(search, lower(${term})) > 0`
  return SIGNS.test(term) ? sql`${whole} and ${HAS_SIGNS}` : whole
}

export type SearchIndex = 'present' | 'missing' | 'without-extension'

export async function searchIndex(database: Database): Promise<SearchIndex> {
  const { rows } = await database.sql(
    `select to_regclass('multitenancy.tenants_search') is not null and to_regclass('multitenancy.tenants_starts') is not null as "isPresent",
       exists (select from pg_extension where extname = 'pg_trgm') as "hasExtension"`,
  )
  const [{ isPresent, hasExtension }] = rows as [{ isPresent: boolean; hasExtension: boolean }]
  if (isPresent) return 'present'
  return hasExtension ? 'missing' : 'without-extension'
}

/** Creates the extension and the indexes, if they do not exist and the role of the database may. */
export async function createSearchIndex(database: Database): Promise<void> {
  await database.sql('select multitenancy.index_search()')
}
