/** Timeouts of a server's responses, and the error of a server that does not respond. */

export const RESPONSE_TIMEOUT_MS = 5_000
/**
 * For a connection that may read for hours and send nothing: otherwise a network that drops packets would not be
 * noticed.
 */
export const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 }

export const timeoutError = (): Error =>
  Object.assign(new Error('The server did not respond in time'), { code: 'ETIMEDOUT' })
