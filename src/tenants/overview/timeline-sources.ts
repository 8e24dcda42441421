/** Entries of transfers and of an open circuit in the timeline of a tenant. Closed circuits have no history. */
import {
  NIL_UUID,
  type TimelineEntry,
  type TimelineRequest,
  type TimelineSource,
} from '../../kernel/shares/contributions.ts'
import type { Overview } from './overview.ts'

const TRANSFERS = `
  select id, kind, state, failure->>'code' as code, created_at as at from multitenancy.transfers
  where tenant_id = $1 and (created_at, id) < ($2, $3) and ($4::timestamptz is null or created_at >= $4)
  order by created_at desc, id desc limit $5`

export const timelineSources: readonly TimelineSource<Overview>[] = [
  { name: 'transfer', operation: 'transfers.get', read: transfers },
  { name: 'circuit', operation: 'tenants.get', read: circuit },
]

async function transfers(
  { kernel }: Overview,
  { tenantId, before, from, limit }: TimelineRequest,
): Promise<TimelineEntry[]> {
  const values = [tenantId, before.at, before.id || NIL_UUID, from ?? null, limit]
  const { rows } = await kernel.database.sql(TRANSFERS, values)
  return rows.map(({ id, kind, state, code, at }) => ({
    at,
    id,
    actor: null,
    title: `Transfer ${state}: ${kind}${code ? ` with ${code}` : ''}`,
    operation: 'transfers.get',
    params: { id: tenantId, transferId: id },
  }))
}

async function circuit(
  overview: Overview,
  { tenantId, before, from }: TimelineRequest,
): Promise<readonly TimelineEntry[]> {
  const located = await overview.services.registry.find(tenantId)
  const at = located ? overview.openedAt(located) : null
  const id = 'open'
  const isBefore = at && (at < before.at || (at.getTime() === before.at.getTime() && id < before.id))
  if (!isBefore || (from && at < from)) return []
  return [{ at, id, actor: null, title: 'Circuit opened', operation: 'tenants.get', params: { id: tenantId } }]
}
