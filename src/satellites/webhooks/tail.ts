/**
 * Streams the attempts of a tenant over all processes, each attempt once.
 *
 * Attempts become visible at their commit, not in the order of their times. So each query returns the rows that its snapshot shows and
 * the previous snapshot did not. The stream needs no memory of returned attempts.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kernel } from '../../kernel/kernel.ts'
import { assertTenantExists } from '../../tenants/registry/tenant-assertions.ts'
import type { DeliveryState } from './model/delivery.ts'

const POLL_MS = 500
/** Limit from the start of an attempt to its settlement, in request timeouts: the request, then the rest of the lease. */
const TIMEOUTS_UNTIL_WRITTEN = 4
/** For processes whose clock is slow. */
const MARGIN_MS = 60_000
const PAGE_SIZE = 1_000
const NO_ID = '00000000-0000-0000-0000-000000000000'

/**
 * Rows visible in snapshot $3 and not in $4. The xmin of a row is the lower half of its transaction id. Snapshots do not contain
 * savepoints, so no code may write attempts in a savepoint.
 */
const NEW = `
  with bounds as materialized (
    select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as newest
  ), attempts as (
    select a.*, ((newest - ((newest - a.xmin::text::bigint) & 4294967295))::text)::xid8 as written_by
    from multitenancy.webhook_attempts a cross join bounds
    where a.tenant_id = $1 and a.started_at >= $2 and (a.started_at, a.delivery_id, a.number) > ($5, $6, $7)
  )
  select a.started_at, a.delivery_id, a.number, a.status, a.error, a.duration_ms, d.event, d.webhook_id, d.state
  from attempts a join multitenancy.webhook_deliveries d on d.id = a.delivery_id
  where pg_visible_in_snapshot(written_by, $3::pg_snapshot)
    and ($4::pg_snapshot is null or not pg_visible_in_snapshot(written_by, $4::pg_snapshot))
  order by a.started_at, a.delivery_id, a.number limit $8`

export interface TailedAttempt {
  readonly startedAt: string
  readonly event: string
  readonly webhookId: string
  readonly deliveryId: string
  readonly attempt: number
  readonly status: number | null
  readonly error: string | null
  readonly durationMs: number
  /** Current state of the delivery. */
  readonly state: DeliveryState
}

export interface TailOptions {
  /** Also returns attempts started in the last minutes; default: only attempts that end from now on. */
  readonly sinceMinutes?: number | undefined
  /** Ends after the existing attempts. */
  readonly isOnce?: boolean
  readonly signal: AbortSignal
}

/**
 * @param timeoutMs timeout of an attempt
 * @throws `E_TENANT_NOT_FOUND`
 */
export async function* tail(
  { database, clock }: Kernel,
  timeoutMs: number,
  tenantId: string,
  { sinceMinutes, isOnce = false, signal }: TailOptions,
  pollMs = POLL_MS,
): AsyncGenerator<TailedAttempt> {
  await assertTenantExists(database, tenantId)
  const ago = (ms: number) => new Date(clock.now().getTime() - ms)
  let from = sinceMinutes === undefined ? undefined : ago(sinceMinutes * 60_000)
  let seen: string | null = null
  while (!signal.aborted) {
    const { rows } = await database.sql('select pg_current_snapshot()::text as snapshot')
    const [{ snapshot }] = rows as [{ snapshot: string }]
    let last: readonly unknown[] = [new Date(0), NO_ID, 0]
    for (let isMore = from !== undefined; isMore && !signal.aborted; ) {
      const page = await database.sql(NEW, [tenantId, from, snapshot, seen, ...last, PAGE_SIZE])
      for (const row of page.rows) yield attemptOf(row)
      isMore = page.rows.length === PAGE_SIZE
      const end = page.rows.at(-1)
      if (end) last = [end.started_at, end.delivery_id, end.number]
    }
    if (isOnce) return
    seen = snapshot
    from = ago(TIMEOUTS_UNTIL_WRITTEN * timeoutMs + MARGIN_MS)
    await sleep(pollMs, undefined, { signal }).catch(() => undefined)
  }
}

const attemptOf = (row: any): TailedAttempt => ({
  startedAt: row.started_at.toISOString(),
  event: row.event,
  webhookId: row.webhook_id,
  deliveryId: row.delivery_id,
  attempt: row.number,
  status: row.status,
  error: row.error,
  durationMs: row.duration_ms,
  state: row.state,
})
