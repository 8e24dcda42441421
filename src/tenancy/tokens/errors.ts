import { defineError } from '../../kernel/base/errors.ts'

export const TokenNotFound = defineError('E_TOKEN_NOT_FOUND', 404, 'Token not found')
export const SessionNotFound = defineError('E_SESSION_NOT_FOUND', 404, 'Session not found')
export const TokenExists = defineError('E_TOKEN_EXISTS', 409, 'Token name taken')
/** A pattern matches no operation. */
export const PatternUnknown = defineError('E_PATTERN_UNKNOWN', 422, 'Pattern matches no operation')
/** Rejects a token that permits more than the token that creates it. */
export const Forbidden = defineError('E_FORBIDDEN', 403, 'Not allowed')
