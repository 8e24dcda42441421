/**
 * What PostgreSQL keeps of a password, made here: so the password itself is in no statement, and in no log of the server.
 *
 * It is hashed once and not thousands of times. That slows down who guesses passwords that people choose; of 256 random bits none is
 * guessed, and each new connection of tenants' queries would pay for it, on both sides.
 *
 * The form is that of PostgreSQL's pg_authid.rolpassword, the hashes are those of RFC 5802 and RFC 7677.
 */
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'

const ITERATIONS = 1
const BYTES = 32

/** @param password random, and of letters and digits: others would have to be normalised first */
export function scramVerifier(password: string): string {
  const salt = randomBytes(16)
  const salted = pbkdf2Sync(password, salt, ITERATIONS, BYTES, 'sha256')
  const keyed = (what: string) => createHmac('sha256', salted).update(what).digest()
  const storedKey = createHash('sha256').update(keyed('Client Key')).digest('base64')
  return `SCRAM-SHA-256$${ITERATIONS}:${salt.toString('base64')}$${storedKey}:${keyed('Server Key').toString('base64')}`
}
