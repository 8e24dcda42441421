import { z } from 'zod'
import { event } from '../../kernel/events/events.ts'

const ofSession = { tenantId: z.string(), sessionId: z.uuid(), userId: z.string() }

/** The tenant's webhooks receive both events, so neither names the actor. */
export const ImpersonationStarted = event(
  'ImpersonationStarted',
  "An administrator may act in the name of a tenant's user, until expiresAt at most",
  z.object({
    ...ofSession,
    reason: z.string(),
    expiresAt: z.iso.datetime(),
  }),
)

export const ImpersonationEnded = event(
  'ImpersonationEnded',
  'An impersonation was ended before its expiry. No event follows an expiry',
  z.object({
    ...ofSession,
    cause: z.enum(['ended', 'tenant-deleted']).describe('`ended`: by a caller'),
  }),
)
