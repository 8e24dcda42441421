/** One line of the audit log, as the API and the exports show it. */
import { z } from 'zod'
import type { SealedEntryRow } from './tables.ts'

const image = z.record(z.string(), z.unknown()).nullable()

export const AuditEntry = z
  .object({
    id: z.uuid(),
    tenantId: z.string().nullable().meta({ description: 'Null for what concerns no single tenant' }),
    action: z.string().meta({ description: 'Name of the operation', example: 'tenants.suspend' }),
    actor: z.object({
      type: z.string().meta({
        description:
          '`admin` (a token), `cli`, `host` (the embedding program), `user` (of the host), `system`, or `impersonator`: one of these in the name of a user',
      }),
      id: z.string(),
      name: z.string(),
    }),
    target: z.string().meta({ description: 'What was changed', example: 'tenant:acme' }),
    before: image.meta({ description: 'What was changed, as it was; null when it is new' }),
    after: image.meta({
      description:
        'The same, as it is since; with the member `impersonation` (`sessionId`, `userId`) where it was done in the name of a user',
    }),
    requestId: z.string().nullable(),
    ip: z.string().nullable(),
    outcome: z.enum(['success', 'failure']),
    createdAt: z.iso.datetime(),
    hash: z
      .string()
      .nullable()
      .meta({ description: 'Its seal in the chain of the tenant; null until it is sealed, within a minute or so' }),
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
