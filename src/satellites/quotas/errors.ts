import { z } from 'zod'
import { defineError } from '../../kernel/base/errors.ts'

/** Headers of responses that count, unless they are disabled. */
export const RATE_LIMIT = {
  'RateLimit-Policy': 'Daily limit of the plan for each limited quota: `"exports";q=1000;w=86400`',
  RateLimit: 'Remaining amount, and seconds until the reset: `"exports";r=993;t=40211`',
}

export const QuotaExceeded = defineError('E_TENANT_QUOTA_EXCEEDED', 429, 'Quota exceeded', {
  members: {
    quota: z.string(),
    limit: z.number(),
    usage: z.number(),
    requested: z.int(),
    resetAt: z.iso.datetime().meta({ description: 'Midnight UTC by the clock of the store' }),
    plan: z.string(),
  },
  headers: { 'Retry-After': 'Seconds to midnight UTC', ...RATE_LIMIT },
})
export const QuotaNotFound = defineError('E_QUOTA_NOT_FOUND', 404, 'Quota not found')
