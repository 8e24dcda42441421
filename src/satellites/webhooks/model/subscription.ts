/** Schemas of subscriptions: responses, and requests that create or change them. */
import { z } from 'zod'
import { isValidPostgresText } from '../../../kernel/database/postgres-text.ts'
import { Secret } from '../signature/secret.ts'
import { EventPatterns } from './event-names.ts'
import type { SubscriptionRow } from './tables.ts'

const at = z.iso.datetime()

export const Subscription = z
  .object({
    webhookId: z.uuid(),
    tenantId: z.string().nullable().describe('Null for subscriptions of the host, which receive events of all tenants'),
    url: z.string(),
    events: z.array(z.string()),
    description: z.string().nullable(),
    enabled: z.boolean(),
    envelope: z.boolean().describe('Whether bodies are `{ type, id, timestamp, data }`, with the payload as `data`'),
    disabledReason: z
      .enum(['gone', 'failing'])
      .nullable()
      .describe('Why it was disabled automatically: its receiver responded with 410, or only failed for 5 days'),
    secretSet: z.literal(true),
    createdAt: at,
    updatedAt: at,
  })
  .meta({ id: 'Webhook' })
export type Subscription = z.output<typeof Subscription>

/** A subscription is disabled after failures only for this time. */
export const FAILING_FOR_MS = 5 * 86_400_000
/** Waiting deliveries are counted up to this number, once ready ones and once retries. */
export const MAX_WAITING = 10_000

export const Health = z.object({
  failingSince: at.nullable().describe('Since when all attempts failed; null after a success'),
  lastDeliveredAt: at
    .nullable()
    .describe('Success of the newest delivered event; null if the last 1,000 deliveries had none'),
  waiting: z
    .int()
    .max(2 * MAX_WAITING)
    .describe('Deliveries that wait for a worker or for a retry, 20,000 at most'),
  disabledAt: at
    .nullable()
    .describe('When a failed delivery disables it if failures continue; null if it has no failures or is disabled'),
})
export type Health = z.output<typeof Health>

export const SubscriptionWithHealth = Subscription.extend({ health: Health }).meta({ id: 'WebhookWithHealth' })
export type SubscriptionWithHealth = z.output<typeof SubscriptionWithHealth>

export const toHealth = (
  { enabled, failingSince }: SubscriptionRow,
  found: { readonly lastDeliveredAt: Date | null; readonly waiting: number } | undefined,
): Health => ({
  failingSince: failingSince?.toISOString() ?? null,
  lastDeliveredAt: found?.lastDeliveredAt?.toISOString() ?? null,
  waiting: found?.waiting ?? 0,
  disabledAt: disabledAtOf(enabled ? failingSince : null)?.toISOString() ?? null,
})

export const disabledAtOf = (failingSince: Date | null): Date | null =>
  failingSince && new Date(failingSince.getTime() + FAILING_FOR_MS)

export const SubscriptionWithSecret = Subscription.extend({
  secret: z.string().describe('Returned only in this response'),
})
export type SubscriptionWithSecret = z.output<typeof SubscriptionWithSecret>

const description = z
  .string()
  .max(500)
  .refine(isValidPostgresText, 'must not contain NUL or an unpaired surrogate')
  .nullable()

export const NewSubscription = z.strictObject({
  url: z
    .string()
    .min(1)
    .meta({ description: 'https URL with a public address', example: 'https://receiver.example/webhooks' }),
  events: EventPatterns,
  secret: Secret.optional().describe('Default: a generated secret'),
  description: description.default(null),
  enabled: z.boolean().default(true),
  envelope: z
    .boolean()
    .default(false)
    .describe(
      'Sends `{ type, id, timestamp, data }` (Standard Webhooks) with the payload as `data`, in place of the payload',
    ),
})

export const SubscriptionChange = z.strictObject({
  url: NewSubscription.shape.url.optional(),
  events: EventPatterns.optional(),
  description: description.optional(),
  enabled: z.boolean().optional(),
  envelope: z.boolean().optional(),
})

export const Rotation = z.strictObject({
  graceSeconds: z
    .int()
    .min(0)
    .max(30 * 86_400)
    .default(86_400)
    .describe('Seconds for which the previous secret also signs'),
})

export const toSubscription = (row: SubscriptionRow): Subscription => ({
  webhookId: row.id,
  tenantId: row.tenantId,
  url: row.url,
  events: row.events,
  description: row.description,
  enabled: row.enabled,
  envelope: row.envelope,
  disabledReason: row.disabledReason as Subscription['disabledReason'],
  secretSet: true,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
})
