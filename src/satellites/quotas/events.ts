import { z } from 'zod'
import { event } from '../../kernel/events/events.ts'

const ofQuota = { tenantId: z.string(), quota: z.string() }

export const QuotaTracked = event(
  'QuotaTracked',
  'A tenant has used an amount of a quota',
  z.object({ ...ofQuota, amount: z.int(), usage: z.int().describe('Usage after the call') }),
  { isInternal: true },
)

export const QuotaThresholdReached = event(
  'QuotaThresholdReached',
  'A tenant has used 80 or 100 % of a quota; once per quota, threshold and UTC day',
  z.object({
    ...ofQuota,
    threshold: z.union([z.literal(80), z.literal(100)]).describe('Percent'),
    usage: z.number(),
    limit: z.number(),
    plan: z.string(),
  }),
)

export const TenantQuotaExceeded = event(
  'TenantQuotaExceeded',
  'A call of a tenant was rejected because a quota is exceeded; once per quota and UTC day',
  z.object({
    ...ofQuota,
    usage: z.number(),
    limit: z.number(),
    requested: z.int(),
    plan: z.string(),
    resetAt: z.iso.datetime(),
  }),
)
