/** Calls of `track` inside a tenant's transaction: an entry of its outbox, counted after the commit. */
import { z } from 'zod'
import type { JoinedOutbox } from '../../kernel/outbox/joining.ts'
import { outboxEntry } from '../../kernel/outbox/kinds.ts'
import { checkTakes } from '../../kernel/store/counters.ts'

const TRACK = 'quotas.track'
const Track = z.object({ quota: z.string(), amount: z.int().min(0) })

export const postTrack = (outbox: JoinedOutbox, quota: string, amount: number): Promise<void> =>
  outbox.post(TRACK, { quota, amount })

interface Tracking {
  /** Rejects while the store is unavailable. */
  readCounter(tenantId: string, quota: string): Promise<unknown>
  trackAfterCommit(tenantId: string, quota: string, amount: number): void
}

/**
 * Counts after the ids of the entries are committed, so that none is counted twice. Entries wait while the store is unavailable. A
 * store that becomes unavailable between this check and the count loses the count.
 */
export const postedTracks = outboxEntry(TRACK, Track, async (quotas: Tracking, entries) => {
  for (const { payload } of entries) checkTakes([{ name: payload.quota, amount: payload.amount, limit: null }])
  const [first] = entries
  if (first) await quotas.readCounter(first.tenantId, first.payload.quota)
  for (const { tenantId, payload } of entries) quotas.trackAfterCommit(tenantId, payload.quota, payload.amount)
})
