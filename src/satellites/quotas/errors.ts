import { z } from 'zod'
import { defineError } from '../../kernel/base/errors.ts'

/** Of whatever counts, unless they are switched off. */
export const RATE_LIMIT = {
  'RateLimit-Policy': 'What the plan allows in a day, `"exports";q=1000;w=86400`; of each quota that is limited',
  RateLimit: 'What is left of it, and the seconds until there is more, `"exports";r=993;t=40211`',
}

export const QuotaExceeded = defineError('E_TENANT_QUOTA_EXCEEDED', 429, 'A quota is used up', {
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
export const QuotaNotFound = defineError('E_QUOTA_NOT_FOUND', 404, 'There is no such quota')
