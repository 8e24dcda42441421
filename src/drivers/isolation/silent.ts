/** A server that does not answer: what is told of it, and how long it is waited for where somebody waits. */

export const ANSWER_MS = 5_000

export const silent = (): Error => Object.assign(new Error('the server does not answer'), { code: 'ETIMEDOUT' })
