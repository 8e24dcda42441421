/** How parts contribute to the search of an operator: each provider finds objects of its part by a term. */
import type { Database } from '../database/database.ts'

/** What a provider compares with the term. Results by id precede those by name, and these precede those by value. */
export const COMPARED = ['id', 'name', 'value'] as const
export type Compared = (typeof COMPARED)[number]

export interface SearchRequest {
  /** As given, without surrounding spaces. */
  readonly q: string
  readonly limit: number
  /** The backoffice. */
  readonly database: Pick<Database, 'sql' | 'query'>
}

/** An object that a search has found. Its operation reads it: callers without that operation do not receive the object. */
export interface SearchResult {
  /** `delivery` */
  readonly kind: string
  readonly id: string
  readonly tenantId: string | null
  readonly title: string
  /** The member that has the term: `id`, `url`, `metadata.crmId`. */
  readonly matched: string
  readonly operation: string
  /** Parameters of its path and query. */
  readonly params: Readonly<Record<string, string>>
}

/**
 * Finds objects with an index. After 200 ms its connections are closed, and it is named in the response.
 *
 * @example
 *   foundBy({ name: 'notes', kind: 'note', operation: 'notes.get', accepts: isUuid, sql: `select id, tenant_id as "tenantId", title,
 *     'id' as matched, json_build_object('id', tenant_id, 'noteId', id) as params from multitenancy.notes where id = $1` })
 */
export interface SearchProvider<Service = any> {
  readonly name: string
  readonly compares: Compared
  /** Whether the format of a term permits a result; default: every term. */
  readonly accepts?: (q: string) => boolean
  readonly read: (service: Service, request: SearchRequest) => Promise<readonly SearchResult[]>
}

interface SearchStatement {
  /** Name of the provider. */
  readonly name: string
  /** Default `id`. */
  readonly compares?: Compared
  readonly accepts: (q: string) => boolean
  /** Selects `id`, `tenantId`, `title`, `matched`, `params`, and `operation` if it differs between rows. `$1` is the term, `$2` the limit. */
  readonly sql: string
  readonly kind: string
  readonly operation?: string
}

/** Finds objects of one kind by a statement. */
export const foundBy = ({ name, compares = 'id', accepts, sql, ...common }: SearchStatement): SearchProvider => ({
  name,
  compares,
  accepts,
  async read(_, { q, limit, database }) {
    const { rows } = await database.sql(`select * from (${sql}) found limit $2`, [q, limit])
    return rows.map((row) => ({ ...common, ...row }))
  },
})
