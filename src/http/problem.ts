/**
 * Errors as answers: RFC 9457 problem+json. This is the one place that turns a thrown error into a response. What is not a
 * TenancyError is a fault of ours or of something we depend on: its text goes to the log, never into an answer.
 */
import { z } from 'zod'
import { currentContext } from '../kernel/base/context.ts'
import { DependencyUnavailable, defineError, TenancyError } from '../kernel/base/errors.ts'
import type { Logger } from '../kernel/base/logger.ts'
import { isDatabaseUnavailable } from '../kernel/database/database.ts'
import { respondJson } from './respond.ts'

export const Unauthorized = defineError('E_UNAUTHORIZED', 401, 'Not signed in')
export const Forbidden = defineError('E_FORBIDDEN', 403, 'Not allowed')
export const InvalidJson = defineError('E_INVALID_JSON', 400, 'The body is not JSON')
export const MethodNotAllowed = defineError('E_METHOD_NOT_ALLOWED', 405, 'Method not allowed')
/** `If-Match` names no tag of the present state. */
export const ChangedMeanwhile = defineError('E_CHANGED_MEANWHILE', 412, 'Changed meanwhile', {
  members: {
    current: z
      .record(z.string(), z.unknown())
      .nullable()
      .meta({ description: 'The present state, as GET answers it; null: it does not exist' }),
  },
  headers: { ETag: 'Of the present state, if it exists' },
})
export const PayloadTooLarge = defineError('E_PAYLOAD_TOO_LARGE', 413, 'The body is too large')
export const UnsupportedMediaType = defineError('E_UNSUPPORTED_MEDIA_TYPE', 415, 'Unsupported media type')
const Internal = defineError('E_INTERNAL', 500, 'Internal error')

export const PROBLEM_TYPE = 'application/problem+json'
const RETRY_AFTER_SECONDS = 5

/** What a caller may know of `error`; logs the rest. */
export function asTenancyError(error: unknown, log: Logger): TenancyError {
  const known = knownError(error)
  if (!known) {
    log.error({ err: error }, 'a request failed')
    return Internal('Something went wrong here; the log has it under this request id.')
  }
  if (known.status >= 500) log.warn({ err: known }, known.message)
  return known
}

export interface Problem {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Problem+json, as an object. */
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * For a host's own routes: the answer that an error of Tenantry's stands for, or undefined when it is none of ours. That a
 * database cannot be reached may be about one of the host's own: ours is told as `E_DEPENDENCY_UNAVAILABLE`.
 */
export function problemOf(error: unknown): Problem | undefined {
  return error instanceof TenancyError ? problem(error) : undefined
}

export function problemResponse(error: TenancyError, more: Readonly<Record<string, string>> = {}): Response {
  const { status, headers, body } = problem(error)
  return respondJson(status, body, { ...headers, ...more })
}

export function problem({ code, title, status, message, extras, retryAfterSeconds, headers }: TenancyError): Problem {
  const { requestId } = currentContext()
  const seconds = retryAfterSeconds ?? (status === 503 ? RETRY_AFTER_SECONDS : undefined)
  return {
    status,
    headers: {
      ...headers,
      'content-type': PROBLEM_TYPE,
      ...(seconds === undefined ? {} : { 'retry-after': String(Math.ceil(seconds)) }),
    },
    body: { ...extras, type: `urn:tenantry:problem:${code}`, title, status, detail: message, code, requestId },
  }
}

function knownError(error: unknown): TenancyError | undefined {
  if (error instanceof TenancyError) return error
  if (!isDatabaseUnavailable(error)) return undefined
  return DependencyUnavailable('The database cannot be reached at the moment.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
    cause: error,
  })
}
