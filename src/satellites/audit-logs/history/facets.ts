/**
 * Existing values of the newest entries, for filters of lists. It reads a limited number of entries, so that its time does not grow with
 * the log. Names of actors can be encrypted differently in each entry, so actors are counted by type and id.
 */
import { z } from 'zod'
import type { Database } from '../../../kernel/database/database.ts'
import type { DataKeys } from '../fields/data-keys.ts'
import { decryptFields } from '../fields/fields.ts'
import { inOurTime } from '../model/tables.ts'

const ENTRIES_READ = 10_000
const MAX_VALUES = 100

const counted = z.object({ value: z.string(), count: z.number().int() })

export const Facets = z
  .object({
    entries: z.number().int().meta({ description: 'Number of entries that were read: the newest 10,000 at most' }),
    since: z.iso.datetime().nullable().meta({ description: 'Time of the oldest of them' }),
    actions: z.array(counted).meta({ description: 'The most frequent first, 100 at most' }),
    actors: z.array(z.object({ type: z.string(), id: z.string(), name: z.string(), count: z.number().int() })),
    targets: z.array(counted),
  })
  .meta({ id: 'AuditFacets' })
export type Facets = z.output<typeof Facets>

export interface FacetFilter {
  readonly tenantId?: string | undefined
  /** Inclusive. */
  readonly from?: Date | undefined
  /** Exclusive. */
  readonly to?: Date | undefined
}

const NEWEST = `
  with newest as materialized (
    select id, tenant_id, action, actor_type, actor_id, actor_name, target, created_at from multitenancy.audit_entries e
    where ${inOurTime('e')} and ($1::text is null or tenant_id = $1)
      and ($2::timestamptz is null or created_at >= $2) and ($3::timestamptz is null or created_at < $3)
    order by created_at desc, id desc limit ${ENTRIES_READ})`

const VALUES = `${NEWEST}
  select * from (
    select action, target, count(*) as count, min(created_at) as since,
      row_number() over (partition by grouping(action, target) order by count(*) desc, action, target) as place
    from newest group by grouping sets ((action), (target), ())) ranked
  where place <= ${MAX_VALUES} order by place`

const ACTORS = `${NEWEST}
  select * from (
    select distinct on (actor_type, actor_id) id, tenant_id as "tenantId", actor_type as "type", actor_id as "actorId",
      actor_name as "actorName", count(*) over (partition by actor_type, actor_id) as count
    from newest order by actor_type, actor_id, created_at desc) known
  order by count desc, "type", "actorId" limit ${MAX_VALUES}`

export async function facetsOf(
  database: Database,
  keys: Pick<DataKeys, 'forReading'>,
  { tenantId, from, to }: FacetFilter,
): Promise<Facets> {
  const values = [tenantId ?? null, from ?? null, to ?? null]
  const [{ rows }, actors] = await Promise.all([database.sql(VALUES, values), database.sql(ACTORS, values)])
  const all = rows.find(({ action, target }) => action === null && target === null)
  const named = await decryptFields(
    keys,
    actors.rows.map((row) => ({ ...row, ip: null, before: null, after: null })),
  )
  return {
    entries: all.count,
    since: all.since?.toISOString() ?? null,
    actions: countsOf(rows, 'action'),
    actors: named.map(({ type, actorId, actorName, count }) => ({ type, id: actorId, name: actorName, count })),
    targets: countsOf(rows, 'target'),
  }
}

const countsOf = (rows: readonly any[], column: 'action' | 'target') =>
  rows.flatMap((row) => (row[column] === null ? [] : [{ value: row[column], count: row.count }]))
