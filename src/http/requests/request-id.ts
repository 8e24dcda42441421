/** Returns the request id: a valid `x-request-id` of the caller, otherwise a new id. */
import { randomUUID } from 'node:crypto'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

export const requestIdOf = (requested: unknown): string =>
  typeof requested === 'string' && REQUEST_ID.test(requested) ? requested : randomUUID()
