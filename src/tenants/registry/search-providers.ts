/** Finds tenants for the search of an operator: by id, name and domain, and by a value of their metadata. Also deleted ones. */
import { sql } from 'kysely'
import type { SearchProvider, SearchRequest, SearchResult } from '../../kernel/shares/search.ts'
import type { TenantRow } from '../tenant/tables.ts'
import { jsonTexts, tenantsMatching } from './search.ts'

const withDeleted = { includeDeleted: true }

/** Tenants with the whole term first, then the newest. */
async function findTenants({ q, limit, database }: SearchRequest): Promise<SearchResult[]> {
  const [exact, others] = await Promise.all([
    tenantsMatching(database, withDeleted)
      .where(sql<boolean>`id = any (${withWhole(q, limit)})`)
      .execute(),
    tenantsMatching(database, { ...withDeleted, q })
      .orderBy('createdAt', 'desc')
      .orderBy('id', 'desc')
      .limit(limit)
      .execute(),
  ])
  const byId = new Map([...exact.toSorted((one) => (one.id === q ? -1 : 1)), ...others].map((row) => [row.id, row]))
  return Array.from(byId.values(), (row) => toResult(row, matchedBy(row, q))).slice(0, limit)
}

/** Ids of tenants with this id, name or domain. One query for each member: with `or`, all tenants would be read. */
const withWhole = (q: string, limit: number) => sql`array(
  select ${q} union all
  (select id from multitenancy.tenants where name = ${q} and purged_at is null order by id limit ${limit}) union all
  select tenant_id from multitenancy.tenant_domains where domain = ${q.toLowerCase()})`

/** The newest tenants with a string, number or boolean in their metadata whose whole text is the term. */
async function findByMetadata({ q, limit, database }: SearchRequest): Promise<SearchResult[]> {
  const path = `$.** ? (${jsonTexts(q)
    .map((json) => `@ == ${json}`)
    .join(' || ')})`
  const rows = await tenantsMatching(database, withDeleted)
    .where(sql<boolean>`metadata @? ${path}::jsonpath`)
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  return rows.map((row) => toResult(row, ['metadata', ...(pathOf(row.metadata, q) ?? [])].join('.')))
}

export const tenantProviders: readonly SearchProvider[] = [
  { name: 'tenants', compares: 'name', read: (_, request) => findTenants(request) },
  { name: 'metadata', compares: 'value', read: (_, request) => findByMetadata(request) },
]

const toResult = ({ id, name }: TenantRow, matched: string): SearchResult => ({
  kind: 'tenant',
  id,
  tenantId: id,
  title: name,
  matched,
  operation: 'tenants.get',
  params: { id },
})

function matchedBy({ id, name, domains }: TenantRow, q: string): string {
  const term = q.toLowerCase()
  if (id === q || id.includes(term)) return 'id'
  return domains.includes(term) || !name.toLowerCase().includes(term) ? 'domain' : 'name'
}

/** Keys and positions that lead to the value. */
function pathOf(value: unknown, text: string): string[] | undefined {
  if (typeof value !== 'object' || value === null) return String(value) === text ? [] : undefined
  for (const [key, member] of Object.entries(value)) {
    const path = pathOf(member, text)
    if (path) return [key, ...path]
  }
  return undefined
}
