import { defineError } from '../../kernel/base/errors.ts'

/** One for all: a token that never was, of another tenant, expired or ended is not told apart. */
export const ImpersonationInvalid = defineError('E_IMPERSONATION_INVALID', 401, 'The impersonation is not valid')

/** Who acts in the name of a user begins nothing of the kind. */
export const Forbidden = defineError('E_FORBIDDEN', 403, 'Not allowed')
