/** Timeouts of a server's responses: how long a caller waits, and the error of a server that does not respond. */

export const RESPONSE_TIMEOUT_MS = 5_000
/** Of a connection that may read for hours and send nothing: a network that drops its packets would never be noticed. */
export const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 }

export const timeoutError = (): Error => Object.assign(new Error('the server does not answer'), { code: 'ETIMEDOUT' })
