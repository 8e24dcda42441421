/** Tokens of sessions: 32 random bytes. Only their hashes are stored, so database access reveals no token. */
import { fingerprint, randomToken } from '../../kernel/crypto/crypto.ts'

const PREFIX = 'imp_'
const TOKEN = /^imp_[\w-]{43}$/

export const newToken = (): string => PREFIX + randomToken()

/** The stored hash; undefined for a malformed token. */
export const hashOf = (token: string): string | undefined => (TOKEN.test(token) ? fingerprint(token) : undefined)
