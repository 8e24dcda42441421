import { z } from 'zod'
import { event } from '../../kernel/events/events.ts'

const ofSession = { tenantId: z.string(), sessionId: z.uuid(), userId: z.string() }

/** Both are sent to the tenant's own webhooks: who of the host's people acts is not said. */
export const ImpersonationStarted = event(
  'ImpersonationStarted',
  "Somebody may act in the name of a tenant's user, until expiresAt at most",
  z.object({
    ...ofSession,
    reason: z.string(),
    expiresAt: z.iso.datetime(),
  }),
)

export const ImpersonationEnded = event(
  'ImpersonationEnded',
  'An impersonation was ended before its time; of one that expires nothing is said',
  z.object({
    ...ofSession,
    cause: z.enum(['ended', 'tenant-deleted']).describe('`ended`: somebody did it'),
  }),
)
