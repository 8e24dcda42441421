/** Calls of `track` inside a tenant's transaction: an entry of its outbox, counted after the commit. */
import { z } from 'zod'
import type { JoinedOutbox } from '../../kernel/outbox/joining.ts'
import { outboxEntry } from '../../kernel/outbox/kinds.ts'
import { checkTakes } from '../../kernel/store/counters.ts'

const TRACK = 'quotas.track'
const Track = z.object({ quota: z.string(), amount: z.int().min(0) })

/** Returns the amount. */
export async function postTrack(outbox: JoinedOutbox, quota: string, amount: number): Promise<number> {
  checkTakes([{ name: quota, amount, limit: null }])
  await outbox.post(TRACK, { quota, amount })
  return amount
}

interface Tracking {
  afterCommit(work: () => unknown): void
  trackPosted(tenantId: string, quota: string, amount: number): Promise<unknown>
}

/** Counts after the ids of the entries are committed, so that none is counted twice. */
export const postedTracks = outboxEntry(TRACK, Track, async (quotas: Tracking, entries) => {
  for (const { tenantId, payload } of entries) {
    checkTakes([{ name: payload.quota, amount: payload.amount, limit: null }])
    quotas.afterCommit(() => quotas.trackPosted(tenantId, payload.quota, payload.amount))
  }
})
