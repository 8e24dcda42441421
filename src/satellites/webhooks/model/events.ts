import { z } from 'zod'
import { event } from '../../../kernel/events/events.ts'

const tenantId = z.string().nullable().describe("Null for the host's own subscription")

export const WebhookSubscriptionDisabled = event(
  'WebhookSubscriptionDisabled',
  'A subscription was disabled because its receiver is gone, or has only failed for days',
  z.object({
    tenantId,
    webhookId: z.uuid(),
    reason: z
      .enum(['gone', 'failing'])
      .describe('`gone`: the receiver responded with 410; `failing`: only failures for 5 days'),
  }),
)

export const WebhookDeliveryFailed = event(
  'WebhookDeliveryFailed',
  'A delivery has used all its attempts, or the receiver responded with 410',
  z.object({
    tenantId: z.string().nullable().describe('Tenant of the event'),
    webhookId: z.uuid(),
    deliveryId: z.uuid(),
    event: z.string(),
    attemptCount: z.int(),
    lastStatus: z.int().nullable(),
  }),
  { isInternal: true },
)
