/**
 * Selects tenants by their members, and by a term in their ids, names and domains.
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
  readonly isolation?: string
  readonly placement?: string
  readonly inMaintenance?: boolean
  /** Values of members of the metadata, as text: `7` also selects the number 7. */
  readonly metadata?: Readonly<Record<string, string>>
  /** Inclusive. */
  readonly createdFrom?: Date
  /** Exclusive. */
  readonly createdTo?: Date
}

/** `metadata.plan` of the tenants with a plan: for the default plan, all tenants without the name of another one. */
export type PlanCondition = { readonly is: string } | { readonly isNoneOf: readonly string[] }

export function tenantsMatching(
  database: Pick<Database, 'query'>,
  search: TenantSearch,
  plan?: PlanCondition,
): SelectQueryBuilder<TenantTables, 'tenants', TenantRow> {
  const { status, q, includeDeleted, isolation, placement, inMaintenance, metadata, createdFrom, createdTo } = search
  let query = database.query<TenantTables>().selectFrom('tenants').selectAll().where('purgedAt', 'is', null)
  if (status) query = query.where('status', '=', status)
  else if (!includeDeleted) query = query.where('status', '!=', 'deleted')
  if (plan) query = query.where(hasPlan(plan))
  if (isolation !== undefined) query = query.where('isolation', '=', isolation)
  if (placement !== undefined) query = query.where('placement', '=', placement)
  if (inMaintenance !== undefined) query = query.where('maintenance', inMaintenance ? 'is not' : 'is', null)
  for (const [key, value] of Object.entries(metadata ?? {})) query = query.where(hasMember(key, value))
  if (createdFrom) query = query.where('createdAt', '>=', createdFrom)
  if (createdTo) query = query.where('createdAt', '<', createdTo)
  return q ? query.where(matches(q)) : query
}

/** Of a query that selects from `tenants`. */
export const hasPlan = (plan: PlanCondition): Expression<SqlBool> =>
  'is' in plan
    ? sql`tenants.metadata->>'plan' = ${plan.is}`
    : sql`(tenants.metadata->>'plan' is null or tenants.metadata->>'plan' <> all (${plan.isNoneOf}))`

function hasMember(key: string, value: string): Expression<SqlBool> {
  const isMember = (json: string) => sql<boolean>`metadata @> ${`{${JSON.stringify(key)}:${json}}`}::jsonb`
  return sql`(${sql.join(jsonTexts(value).map(isMember), sql` or `)})`
}

/** The JSON values with this text: a string, and a number, boolean or null. */
export const jsonTexts = (text: string): readonly string[] => [
  JSON.stringify(text),
  ...(/^(true|false|null|-?(0|[1-9]\d*)(\.\d+)?)$/.test(text) ? [text] : []),
]

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
