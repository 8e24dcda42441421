/** An entry of the audit log in the API and in exports. */
import { z } from 'zod'
import type { SealedEntryRow } from './tables.ts'

const image = z.record(z.string(), z.unknown()).nullable()

export const AuditEntry = z
  .object({
    id: z.uuid(),
    tenantId: z.string().nullable().meta({ description: 'Null for changes without a single tenant' }),
    action: z.string().meta({ description: 'Name of the operation', example: 'tenants.suspend' }),
    actor: z.object({
      type: z.string().meta({
        description:
          '`admin` (a token), `cli`, `host` (the embedding program), `user` (of the host), `system`, or `impersonator`: one of these in the name of a user',
      }),
      id: z.string(),
      name: z.string(),
    }),
    target: z.string().meta({ description: 'The changed object', example: 'tenant:acme' }),
    before: image.meta({ description: 'Changed members before the change; null for a new object' }),
    after: image.meta({
      description:
        'Changed members after the change. An impersonated change has the member `impersonation` (`sessionId`, `userId`)',
    }),
    requestId: z.string().nullable(),
    ip: z.string().nullable(),
    outcome: z.enum(['success', 'failure']),
    createdAt: z.iso.datetime(),
    hash: z
      .string()
      .nullable()
      .meta({ description: "Seal in the tenant's chain; null until it is sealed, about a minute later" }),
  })
  .meta({ id: 'AuditEntry' })
export type AuditEntry = z.output<typeof AuditEntry>

export const toEntry = (row: SealedEntryRow): AuditEntry => ({
  id: row.id,
  tenantId: row.tenantId,
  action: row.action,
  actor: { type: row.actorType, id: row.actorId, name: row.actorName },
  target: row.target,
  before: row.before,
  after: row.after,
  requestId: row.requestId,
  ip: row.ip,
  outcome: row.outcome,
  createdAt: row.createdAt.toISOString(),
  hash: row.hash,
})
