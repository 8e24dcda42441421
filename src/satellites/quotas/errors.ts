import { defineError } from '../../kernel/errors.ts'

/** The problem has `quota, limit, usage, requested, resetAt, plan`; `Retry-After` is the time to midnight UTC. */
export const QuotaExceeded = defineError('E_TENANT_QUOTA_EXCEEDED', 429, 'A quota is used up')
export const QuotaNotFound = defineError('E_QUOTA_NOT_FOUND', 404, 'There is no such quota')
