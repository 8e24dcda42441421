/**
 * Computes the verifier that PostgreSQL stores for a password (RFC 5802, RFC 7677), so that no statement contains the
 * password: a server with `log_statement = ddl` logs CREATE ROLE and ALTER ROLE in full. The server stores a verifier
 * unchanged, regardless of its `password_encryption`, and accepts it for the authentication methods scram-sha-256, md5
 * and password.
 */
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'

/** PostgreSQL's default. */
const ITERATIONS = 4096
const SALT_BYTES = 16

/**
 * Returns the verifier of a password, for `create role .. password` and `alter role .. password`, with a new salt at
 * each call. It contains only Base64 characters and `$:=`.
 * @param password printable ASCII, for which SASLprep is the identity. Throws a `TypeError` for any other.
 * @example scramVerifier('k3y') // 'SCRAM-SHA-256$4096:<salt>$<StoredKey>:<ServerKey>'
 */
export function scramVerifier(password: string): string {
  if (!/^[ -~]+$/.test(password)) throw new TypeError('The password of a login must be printable ASCII')
  const salt = randomBytes(SALT_BYTES)
  const salted = pbkdf2Sync(password, salt, ITERATIONS, 32, 'sha256')
  const keyOf = (name: string) => createHmac('sha256', salted).update(name).digest()
  const storedKey = createHash('sha256').update(keyOf('Client Key')).digest('base64')
  return `SCRAM-SHA-256$${ITERATIONS}:${salt.toString('base64')}$${storedKey}:${keyOf('Server Key').toString('base64')}`
}
