/** Impersonations in the timeline of a tenant. */
import {
  type Contributions,
  NIL_UUID,
  type TimelineEntry,
  type TimelineRequest,
} from '../../kernel/shares/contributions.ts'
import type { Impersonations } from './impersonation.ts'

export const contributions: Contributions<Impersonations> = {
  timeline: [{ name: 'impersonation', operation: 'impersonations.list', read: timeline }],
}

async function timeline(
  impersonations: Impersonations,
  { tenantId, before, from, limit }: TimelineRequest,
): Promise<TimelineEntry[]> {
  const start = { createdAt: before.at, id: before.id || NIL_UUID }
  const sessions = await impersonations.startedBefore(tenantId, start, from, limit)
  return sessions.map(({ id, userId, actorName, createdAt }) => ({
    at: createdAt,
    id,
    actor: actorName,
    title: `Impersonation of user ${userId} started`,
    operation: 'impersonations.list',
    params: { id: tenantId },
  }))
}
