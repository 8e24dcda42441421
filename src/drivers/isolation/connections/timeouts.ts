/** A server that does not answer: what is told of it, and how long it is waited for where somebody waits. */

export const ANSWER_MS = 5_000
/** Of a connection that may read for hours and send nothing: a network that drops its packets would never be noticed. */
export const KEPT_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 }

export const silent = (): Error => Object.assign(new Error('the server does not answer'), { code: 'ETIMEDOUT' })
