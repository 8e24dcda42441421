/**
 * Attempts of a tenant as they are made, by whichever process. They are asked for again and again: what commits late stands before
 * what was seen, so the last few seconds are looked at anew, and what was shown already is left out.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kernel } from '../../kernel/kernel.ts'
import { assertTenantExists } from '../../tenants/existing.ts'
import type { DeliveryState } from './delivery.ts'

const POLL_MS = 500
/** An attempt is written when it has ended, which may be a time-out after it began, and its transaction takes a while. */
const MAY_BE_LATE_MS = 90_000
const AT_ONCE = 1_000

export interface TailedAttempt {
  readonly startedAt: string
  readonly event: string
  readonly webhookId: string
  readonly deliveryId: string
  readonly attempt: number
  readonly status: number | null
  readonly error: string | null
  readonly durationMs: number
  /** Of the delivery, by now. */
  readonly state: DeliveryState
}

export interface TailWish {
  readonly sinceMinutes?: number
  /** Ends with what there is. */
  readonly isOnce?: boolean
  readonly signal: AbortSignal
}

/** `E_TENANT_NOT_FOUND`. */
export async function* tail(
  { database, clock }: Kernel,
  tenantId: string,
  { sinceMinutes = 0, isOnce = false, signal }: TailWish,
): AsyncGenerator<TailedAttempt> {
  await assertTenantExists(database, tenantId)
  const beginning = clock.now().getTime() - sinceMinutes * 60_000
  const shown = new Map<string, number>()
  let newest = beginning
  while (!signal.aborted) {
    const from = Math.max(beginning, newest - MAY_BE_LATE_MS)
    const { rows } = await database.sql(
      `select a.*, d.event, d.webhook_id, d.state
       from multitenancy.webhook_attempts a join multitenancy.webhook_deliveries d on d.id = a.delivery_id
       where a.tenant_id = $1 and a.started_at >= $2 and (a.delivery_id || ' ' || a.number) <> all ($3)
       order by a.started_at limit $4`,
      [tenantId, new Date(from), [...shown.keys()], AT_ONCE],
    )
    for (const row of rows) {
      const startedMs = row.started_at.getTime()
      shown.set(`${row.delivery_id} ${row.number}`, startedMs)
      newest = Math.max(newest, startedMs)
      yield {
        startedAt: row.started_at.toISOString(),
        event: row.event,
        webhookId: row.webhook_id,
        deliveryId: row.delivery_id,
        attempt: row.number,
        status: row.status,
        error: row.error,
        durationMs: row.duration_ms,
        state: row.state,
      }
    }
    for (const [key, startedMs] of shown) if (startedMs < newest - MAY_BE_LATE_MS) shown.delete(key)
    if (rows.length === AT_ONCE) continue
    if (isOnce) return
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined)
  }
}
