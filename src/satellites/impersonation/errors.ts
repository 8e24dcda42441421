import { defineError } from '../../kernel/base/errors.ts'

/** One error for an unknown token, a token of another tenant, and an expired or ended session: they cannot be distinguished. */
export const ImpersonationInvalid = defineError('E_IMPERSONATION_INVALID', 401, 'Invalid impersonation')

/** Rejects privileged actions of an impersonated user. */
export const Forbidden = defineError('E_FORBIDDEN', 403, 'Not allowed')
