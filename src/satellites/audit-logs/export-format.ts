/** Export formats of the audit log. */
import { formatsOf } from '../../kernel/api/export-format.ts'
import type { AuditEntry } from './model/entry.ts'

export const FORMATS = formatsOf<AuditEntry>({
  id: ({ id }) => id,
  tenantId: ({ tenantId }) => tenantId,
  action: ({ action }) => action,
  actorType: ({ actor }) => actor.type,
  actorId: ({ actor }) => actor.id,
  actorName: ({ actor }) => actor.name,
  target: ({ target }) => target,
  before: ({ before }) => before && JSON.stringify(before),
  after: ({ after }) => after && JSON.stringify(after),
  requestId: ({ requestId }) => requestId,
  ip: ({ ip }) => ip,
  outcome: ({ outcome }) => outcome,
  createdAt: ({ createdAt }) => createdAt,
  hash: ({ hash }) => hash,
})
