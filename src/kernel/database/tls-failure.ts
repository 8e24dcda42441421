/** Recognizes a connection to PostgreSQL that failed at TLS: a rejected certificate, or a server without TLS. */

/** Codes of Node.js for a certificate, and of OpenSSL for a handshake. */
const CODES =
  /^(CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA$|INVALID_PURPOSE$|HOSTNAME_MISMATCH$|ERR_TLS_|ERR_SSL_)/
/** Messages of `pg`. */
const MESSAGES = /^(The server does not support SSL connections|There was an error establishing an SSL connection)$/

export function isTlsFailure(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isTlsFailure)
  if (!(error instanceof Error)) return false
  return CODES.test((error as NodeJS.ErrnoException).code ?? '') || MESSAGES.test(error.message)
}
