import { z } from 'zod'
import { event } from '../../../kernel/events/events.ts'

const tenantId = z.string().nullable().describe("Null for the host's own subscription")

export const WebhookSubscriptionDisabled = event(
  'WebhookSubscriptionDisabled',
  'A subscription was switched off because its receiver wants no more, or has not answered well for days',
  z.object({
    tenantId,
    webhookId: z.uuid(),
    reason: z.enum(['gone', 'failing']).describe('`gone`: it answered 410; `failing`: nothing but failures for 5 days'),
  }),
)

export const WebhookDeliveryFailed = event(
  'WebhookDeliveryFailed',
  'A delivery has used all its attempts, or was answered 410',
  z.object({
    tenantId: z.string().nullable().describe('Whose event it is'),
    webhookId: z.uuid(),
    deliveryId: z.uuid(),
    event: z.string(),
    attemptCount: z.int(),
    lastStatus: z.int().nullable(),
  }),
  { isInternal: true },
)
