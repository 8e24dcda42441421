/** The row of a change, with actor and request of its context. */
import type { ActiveImpersonation, Context } from '../../../kernel/base/context.ts'
import type { ChangeRecorded } from '../../../kernel/events/changes.ts'
import type { EventOf } from '../../../kernel/events/events.ts'
import type { AuditEntryRow } from './tables.ts'

export const entryOf = (
  change: EventOf<typeof ChangeRecorded>,
  { actor, requestId, ip, impersonation }: Context,
): AuditEntryRow => ({
  id: change.id,
  tenantId: change.tenantId,
  action: change.action,
  actorType: actor.type,
  actorId: actor.id,
  actorName: actor.name,
  target: change.target,
  before: change.before,
  after: impersonation ? inNameOf(impersonation, change.after) : change.after,
  requestId,
  ip,
  outcome: change.outcome,
  createdAt: new Date(change.occurredAt),
})

/** Members of the change cannot replace it. */
const inNameOf = ({ sessionId, userId }: ActiveImpersonation, after: AuditEntryRow['after']) => ({
  ...after,
  impersonation: { sessionId, userId },
})
