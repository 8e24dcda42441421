/** Tokens of sessions: 32 random bytes. Only a hash of one is kept, so whoever reads the database can use none. */
import { fingerprint, randomToken } from '../../kernel/crypto/crypto.ts'

const PREFIX = 'imp_'
const TOKEN = /^imp_[\w-]{43}$/

export const newToken = (): string => PREFIX + randomToken()

/** What is kept in its place; undefined when it is none. */
export const hashOf = (token: string): string | undefined => (TOKEN.test(token) ? fingerprint(token) : undefined)
