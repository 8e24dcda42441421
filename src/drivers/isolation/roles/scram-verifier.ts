/**
 * Computes what PostgreSQL stores for a password (RFC 5802, RFC 7677), so that the password of a login is in no statement: a server
 * with `log_statement = ddl` logs CREATE ROLE and ALTER ROLE in full. The server stores a verifier as it is, whatever its
 * `password_encryption`, and accepts it for the authentication methods scram-sha-256, md5 and password.
 */
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'

/** The number that PostgreSQL uses by default. */
const ITERATIONS = 4096
const SALT_BYTES = 16

/**
 * The verifier of a password, for `create role .. password` and `alter role .. password`. Each call has a new salt. Base64 and
 * `$:=` are all of its characters.
 * @param password printable ASCII, of which SASLprep is the identity. Throws a `TypeError` for any other.
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
