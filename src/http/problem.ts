/**
 * Errors as answers: RFC 9457 problem+json. This is the one place that turns a thrown error into a response. What is not a
 * TenancyError is a fault of ours or of something we depend on: its text goes to the log, never into an answer.
 */
import { currentContext } from '../kernel/context.ts'
import { isDatabaseUnavailable } from '../kernel/database.ts'
import { DependencyUnavailable, defineError, TenancyError } from '../kernel/errors.ts'
import type { Logger } from '../kernel/logger.ts'
import { respondJson } from './respond.ts'

export const Unauthorized = defineError('E_UNAUTHORIZED', 401, 'Not signed in')
export const Forbidden = defineError('E_FORBIDDEN', 403, 'Not allowed')
export const InvalidJson = defineError('E_INVALID_JSON', 400, 'The body is not JSON')
export const MethodNotAllowed = defineError('E_METHOD_NOT_ALLOWED', 405, 'Method not allowed')
export const PayloadTooLarge = defineError('E_PAYLOAD_TOO_LARGE', 413, 'The body is too large')
export const UnsupportedMediaType = defineError('E_UNSUPPORTED_MEDIA_TYPE', 415, 'Unsupported media type')
const Internal = defineError('E_INTERNAL', 500, 'Internal error')

const RETRY_AFTER_SECONDS = 5

/** What a caller may know of `error`; logs the rest. */
export function asTenancyError(error: unknown, log: Logger): TenancyError {
  if (error instanceof TenancyError) {
    if (error.status >= 500) log.warn({ err: error }, error.message)
    return error
  }
  if (isDatabaseUnavailable(error)) {
    log.warn({ err: error }, 'a database is unavailable')
    return DependencyUnavailable('The database cannot be reached at the moment.', {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
      cause: error,
    })
  }
  log.error({ err: error }, 'a request failed')
  return Internal('Something went wrong here; the log has it under this request id.')
}

export function problemResponse(error: TenancyError, headers: Readonly<Record<string, string>> = {}): Response {
  const problem = {
    ...error.extras,
    type: `urn:tenantry:problem:${error.code}`,
    title: error.title,
    status: error.status,
    detail: error.message,
    code: error.code,
    requestId: currentContext().requestId,
  }
  return respondJson(error.status, problem, {
    'content-type': 'application/problem+json',
    ...(error.retryAfterSeconds === undefined ? {} : { 'retry-after': String(Math.ceil(error.retryAfterSeconds)) }),
    ...headers,
  })
}
