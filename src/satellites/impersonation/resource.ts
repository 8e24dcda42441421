/** A session in the API. Only the response of its start contains the token. */
import { z } from 'zod'
import type { ActiveImpersonation, Actor } from '../../kernel/base/context.ts'
import type { ImpersonationRow } from './tables.ts'

const moment = z.iso.datetime()

export const Impersonation = z
  .object({
    sessionId: z.uuid(),
    tenantId: z.string(),
    userId: z.string().meta({ description: 'The impersonated user' }),
    actor: z
      .object({ type: z.string(), id: z.string(), name: z.string() })
      .meta({ description: 'The administrator; `type` as in the audit log' }),
    reason: z.string(),
    createdAt: moment,
    expiresAt: moment.meta({ description: 'End of validity of the token' }),
    endedAt: moment.nullable().meta({ description: 'Null if the session was not ended; it may have expired' }),
  })
  .meta({ id: 'Impersonation' })
export type Impersonation = z.output<typeof Impersonation>

export const ImpersonationWithToken = Impersonation.extend({
  token: z.string().meta({ description: 'For `x-impersonation-token`; returned once' }),
}).meta({ id: 'ImpersonationWithToken' })
export type ImpersonationWithToken = z.output<typeof ImpersonationWithToken>

const actorOf = ({ actorType, actorId, actorName }: ImpersonationRow): Actor => ({
  type: actorType as Actor['type'],
  id: actorId,
  name: actorName,
})

export const toImpersonation = (row: ImpersonationRow): Impersonation => ({
  sessionId: row.id,
  tenantId: row.tenantId,
  userId: row.userId,
  actor: actorOf(row),
  reason: row.reason,
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt.toISOString(),
  endedAt: row.endedAt?.toISOString() ?? null,
})

export const toActive = (row: ImpersonationRow): ActiveImpersonation => ({
  sessionId: row.id,
  userId: row.userId,
  actor: actorOf(row),
  reason: row.reason,
  expiresAt: row.expiresAt.toISOString(),
})
