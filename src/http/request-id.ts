/** The request id of the contract: the caller's own in `x-request-id` where it is one, else a new one. */
import { randomUUID } from 'node:crypto'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

export const requestIdOf = (wished: unknown): string =>
  typeof wished === 'string' && REQUEST_ID.test(wished) ? wished : randomUUID()
