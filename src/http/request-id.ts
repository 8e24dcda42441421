/** The request id of the contract: the caller's own in `x-request-id` where it is one, else a new one. */
import { randomUUID } from 'node:crypto'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

export const requestIdOf = (requested: unknown): string =>
  typeof requested === 'string' && REQUEST_ID.test(requested) ? requested : randomUUID()
