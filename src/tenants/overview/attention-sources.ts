/** Conditions of tenants, transfers, servers and jobs that an operator should look at. */
import {
  type AttentionEntry,
  type AttentionRequest,
  type AttentionResult,
  type AttentionSource,
  attentionOf,
  NO_ATTENTION,
} from '../../kernel/shares/contributions.ts'
import type { Overview } from './overview.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const STALLED_MS = 5 * 60_000
/** Failed transfers count for this time, unless a later one of their kind has succeeded. */
const FAILED_DAYS = 7
/** Dead letters that are counted. */
const MAX_DEAD_LETTERS = 500

const ALL_TENANTS = { operation: 'tenants.list', params: {} }
const tenantCall = (id: string) => ({ operation: 'tenants.get', params: { id } })

const ago = ({ now }: AttentionRequest, ms: number): Date => new Date(now.getTime() - ms)

/** A source of one row for each tenant. In the condition, `$3` is the first of `values`. */
const tenantRows = (
  condition: string,
  since: string,
  title: (since: Date | null, code: string | null) => string,
  values: (request: AttentionRequest) => readonly unknown[] = () => [],
): AttentionSource<Overview>['read'] => {
  const text = `
    select id, ${since} as since, failure->>'code' as code, count(*) over () as total from multitenancy.tenants
    where ${condition} and purged_at is null and ($1::text is null or id = $1) order by ${since}, id limit $2`
  return async ({ kernel }, request) => {
    const { tenantId = null, limit } = request
    const { rows } = await kernel.database.sql(text, [tenantId, limit, ...values(request)])
    return attentionOf(rows, ({ id, since, code }: any) => ({
      tenantId: id,
      title: title(since, code),
      since,
      count: 1,
      ...tenantCall(id),
    }))
  }
}

const transferRows = (text: string, title: (kind: string, code: string | null) => string): Source['read'] => {
  return async ({ kernel }, request) => {
    const { tenantId = null, limit } = request
    const beforeMs = text === FAILED ? FAILED_DAYS * DAY_MS : STALLED_MS
    const { rows } = await kernel.database.sql(text, [tenantId, limit, ago(request, beforeMs)])
    return attentionOf(rows, ({ id, tenantId, kind, code, since }: any) => ({
      tenantId,
      title: title(kind, code),
      since,
      count: 1,
      operation: 'transfers.get',
      params: { id: tenantId, transferId: id },
    }))
  }
}

type Source = AttentionSource<Overview>

const FAILED = `
  select id, tenant_id as "tenantId", kind, failure->>'code' as code, finished_at as since, count(*) over () as total
  from multitenancy.transfers failed
  where state = 'failed' and finished_at > $3 and ($1::text is null or tenant_id = $1) and not exists (
    select from multitenancy.transfers later where later.tenant_id = failed.tenant_id and later.kind = failed.kind
      and later.state = 'completed' and later.created_at > failed.created_at)
  order by finished_at, id limit $2`

const STALLED = `
  select id, tenant_id as "tenantId", kind, null as code, greatest(started_at, progressed_at) as since,
    count(*) over () as total
  from multitenancy.transfers
  where state = 'running' and greatest(started_at, progressed_at) < $3 and ($1::text is null or tenant_id = $1)
  order by since, id limit $2`

const LOST = `
  select placement, lost_at as since, (select count(*) from multitenancy.tenants
      where tenants.placement = lost_placements.placement and purged_at is null) as tenants
  from multitenancy.lost_placements
  where $1::text is null or placement = (select placement from multitenancy.tenants where id = $1 and purged_at is null)
  order by lost_at limit $2`

export const attentionSources: readonly Source[] = [
  {
    name: 'installationFailed',
    severity: 'high',
    read: tenantRows(
      `status = 'failed'`,
      'updated_at',
      (_, code) => `Installation failed${code ? ` with ${code}` : ''}`,
    ),
  },
  {
    name: 'transferFailed',
    severity: 'high',
    read: transferRows(FAILED, (kind, code) => `Transfer failed: ${kind}${code ? ` with ${code}` : ''}`),
  },
  {
    name: 'transferStalled',
    severity: 'high',
    read: transferRows(STALLED, (kind) => `Transfer without progress for 5 minutes: ${kind}`),
  },
  { name: 'circuitOpen', severity: 'high', read: openCircuits },
  { name: 'serverLost', severity: 'high', read: lostServers },
  { name: 'deadLetters', severity: 'high', read: deadLetters },
  {
    name: 'suspended',
    severity: 'notice',
    read: tenantRows(
      `status = 'suspended' and suspended_at < $3`,
      'suspended_at',
      () => 'Suspended for more than a day',
      (request) => [ago(request, DAY_MS)],
    ),
  },
  {
    name: 'maintenance',
    severity: 'notice',
    read: tenantRows(
      `maintenance is not null and maintenance->>'since' < $3 and status <> 'deleted'`,
      `(maintenance->>'since')::timestamptz`,
      () => 'In maintenance for more than 4 hours',
      (request) => [ago(request, 4 * HOUR_MS).toISOString()],
    ),
  },
  {
    name: 'purge',
    severity: 'notice',
    read: tenantRows(
      `status = 'deleted' and purge_at < $3`,
      'purge_at',
      (at) => `Purge from ${at?.toISOString()}`,
      ({ now }) => [new Date(now.getTime() + 3 * DAY_MS)],
    ),
  },
  { name: 'schemaOutdated', severity: 'notice', read: outdatedSchemas },
  { name: 'backupOverdue', severity: 'high', read: (overview, request) => overview.overdueBackups(request) },
]

function openCircuits({ services: { circuits } }: Overview, { tenantId }: AttentionRequest): AttentionResult {
  const { servers, tenants } = circuits.snapshot()
  const isOpen = ({ state }: { readonly state: string }) => state === 'OPEN'
  const down = new Set(servers.filter(isOpen).map(({ placement }) => placement))
  const entries = [
    ...servers.filter(isOpen).map(({ placement, openedAt }) => ({
      tenantId: null,
      title: `Circuit of server "${placement}" is open`,
      since: openedAt,
      count: 1,
      operation: 'health.get',
      params: {},
    })),
    ...tenants
      .filter((one) => isOpen(one) && (one.tenantId === tenantId || !down.has(one.placement)))
      .map(({ tenantId: id, openedAt }) => ({
        tenantId: id,
        title: 'Circuit is open',
        since: openedAt,
        count: 1,
        ...tenantCall(id),
      })),
  ].filter((entry) => tenantId === undefined || entry.tenantId === tenantId)
  return { entries, total: entries.length }
}

async function lostServers({ kernel }: Overview, { tenantId, limit }: AttentionRequest): Promise<AttentionResult> {
  const { rows } = await kernel.database.sql(LOST, [tenantId ?? null, limit])
  const entries = rows
    .filter(({ tenants }) => tenants > 0)
    .map(({ placement, since, tenants }) =>
      tenantId === undefined
        ? { tenantId: null, title: `Server "${placement}" is lost`, since, count: tenants, ...ALL_TENANTS }
        : { tenantId, title: 'The server of the storage is lost', since, count: 1, ...tenantCall(tenantId) },
    )
  return { entries, total: entries.length }
}

async function deadLetters({ kernel }: Overview, { tenantId }: AttentionRequest): Promise<AttentionResult> {
  const dead = await kernel.jobs.deadJobs.list({ tenantId }, {}, MAX_DEAD_LETTERS)
  const entries = [...Map.groupBy(dead, ({ queue }) => queue)].map(([queue, jobs]) => ({
    tenantId: tenantId ?? null,
    title: `Dead letters of ${queue}`,
    since: jobs.at(-1)?.createdAt ?? null,
    count: jobs.length,
    operation: 'deadLetters.list',
    params: { queue, ...(tenantId === undefined ? {} : { tenantId }) },
  }))
  return { entries, total: entries.length }
}

async function outdatedSchemas({ services }: Overview, { tenantId }: AttentionRequest): Promise<AttentionResult> {
  const { status } = services.migrations
  const count = tenantId === undefined ? await status.pendingTenants() : (await pendingOf(services, tenantId)).length
  if (count === 0) return NO_ATTENTION
  const entry: AttentionEntry =
    tenantId === undefined
      ? { tenantId: null, title: 'Tenants without the newest migrations', since: null, count, ...ALL_TENANTS }
      : { tenantId, title: 'Pending migrations', since: null, count, ...tenantCall(tenantId) }
  return { entries: [entry], total: 1 }
}

/** Names of the migrations that a tenant lacks. Only of installed ones. */
export async function pendingOf({ registry, migrations }: Overview['services'], tenantId: string): Promise<string[]> {
  const located = await registry.find(tenantId)
  if (!located || !['active', 'suspended'].includes(located.tenant.status)) return []
  const states = await migrations.status.ofTenant(tenantId)
  return states.filter(({ state }) => state === 'pending').map(({ migration }) => migration)
}
