/** Turns every error into a response: RFC 9457 problem+json for the caller, and the details for the log. */
import { z } from 'zod'
import { currentContext, enterContext } from '../kernel/base/context.ts'
import type { Deadline } from '../kernel/base/deadline.ts'
import { DependencyUnavailable, defineError, type TenancyError, tenancyErrorOf } from '../kernel/base/errors.ts'
import type { Logger } from '../kernel/base/logger.ts'
import { parseTraceparent } from '../kernel/base/trace-context.ts'
import { isDatabaseUnavailable } from '../kernel/database/database.ts'
import { writeFailure } from '../kernel/database/write-failures.ts'
import type { GuardedRequest } from '../tenants/guard/strategies.ts'
import { requestIdOf } from './requests/request-id.ts'
import { recordRequest, requestFields } from './requests/request-record.ts'
import { baseHeaders, respondJson } from './respond.ts'

export const Unauthorized = defineError('E_UNAUTHORIZED', 401, 'Not signed in')
export const Forbidden = defineError('E_FORBIDDEN', 403, 'Not allowed')
export const InvalidJson = defineError('E_INVALID_JSON', 400, 'The body is not JSON')
export const MethodNotAllowed = defineError('E_METHOD_NOT_ALLOWED', 405, 'Method not allowed')
/** `If-Match` does not contain the tag of the current state. */
export const ChangedMeanwhile = defineError('E_CHANGED_MEANWHILE', 412, 'Changed meanwhile', {
  members: {
    current: z
      .record(z.string(), z.unknown())
      .nullable()
      .meta({ description: 'The present state, as GET returns it; null if the resource does not exist' }),
  },
  headers: { ETag: 'ETag of the present state, if the resource exists' },
})
export const PayloadTooLarge = defineError('E_PAYLOAD_TOO_LARGE', 413, 'The body is too large')
export const UnsupportedMediaType = defineError('E_UNSUPPORTED_MEDIA_TYPE', 415, 'Unsupported media type')
/** The request was cut at its deadline, and no later statement of it is executed. */
export const DeadlineExceeded = defineError('E_DEADLINE_EXCEEDED', 503, 'Deadline exceeded', {
  members: {
    outcome: z.enum(['not_committed', 'unknown']).meta({
      description:
        '`not_committed`: no change was committed to the backoffice. `unknown`: a change was committed, or may be: repeat the request ' +
        'with its `Idempotency-Key`, or read the state first',
    }),
  },
})
const Internal = defineError('E_INTERNAL', 500, 'Internal error')

export const PROBLEM_TYPE = 'application/problem+json'
const RETRY_AFTER_SECONDS = 5
const UNREACHABLE = 'The database cannot be reached at the moment.'
const CANNOT_STORE =
  'The database cannot complete the request at the moment: it is read-only, or lacks disk space or memory.'

/**
 * Returns the response of `work`, or the problem of its error. Logs an error that is not the caller's fault.
 *
 * @param describe adds what a protocol requires in its problems
 */
export async function withProblemResponse(
  log: Logger,
  work: () => Response | Promise<Response>,
  describe = (error: TenancyError): TenancyError => error,
): Promise<Response> {
  try {
    return await work()
  } catch (error) {
    const known = toTenancyError(error)
    const { code, status } = known
    recordRequest({ code })
    if (Internal.matches(known)) log.error({ err: error, ...requestFields(status) }, 'a request failed')
    else logServerError(known, log)
    return problemResponse(describe(known))
  }
}

/** The part of an error that a caller may know: the text of an unexpected error is only logged. */
export function toTenancyError(error: unknown): TenancyError {
  const known = tenancyErrorOf(error)
  if (known) return known
  const options = { retryAfterSeconds: RETRY_AFTER_SECONDS, cause: error }
  if (writeFailure(error) !== undefined) return DependencyUnavailable(CANNOT_STORE, options)
  if (isDatabaseUnavailable(error)) return DependencyUnavailable(UNREACHABLE, options)
  return Internal('Internal error. The log contains the cause under this request id.')
}

/** The error of a request that takes longer than its deadline. */
export function deadlineExceeded({ method, headers }: Request, { mayHaveCommitted }: Deadline): TenancyError {
  const isUnknown = mayHaveCommitted && method !== 'GET' && method !== 'HEAD'
  const isRepeatable = method === 'POST' && headers.has('idempotency-key')
  const advice = isRepeatable
    ? 'Repeat it with the same Idempotency-Key: its change is made only once.'
    : 'Read the state before you repeat it.'
  return DeadlineExceeded(
    isUnknown
      ? `The request exceeded its deadline. It is unknown whether its change was committed. ${advice}`
      : 'The request exceeded its deadline, and nothing was committed. Repeat it later.',
    { extras: { outcome: isUnknown ? 'unknown' : 'not_committed' } },
  )
}

const logServerError = (error: TenancyError, log: Pick<Logger, 'warn'>, method?: string): void => {
  const { status, code, message } = error
  if (status >= 500) log.warn({ err: error, ...requestFields(status, method), code }, message)
}

/** A response in the form that a framework sends. */
export interface ProblemResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The response to a Tenantry error, also in an error of a database library; undefined for any other, which the host handles. */
export function toProblemResponse(error: unknown): ProblemResponse | undefined {
  const known = tenancyErrorOf(error)
  if (!known) return undefined
  const { status, headers, body } = problem(known)
  return { status, headers: { ...baseHeaders(), ...headers }, body: JSON.stringify(body) }
}

/** The same for an error of the host's own routes, with an entry in the log. */
export function toLoggedProblemResponse(
  error: unknown,
  log: Pick<Logger, 'warn'>,
  request: Pick<GuardedRequest, 'header' | 'method'>,
): ProblemResponse | undefined {
  const context = currentContext()
  // An ignored path has no request id, and a context can be lost in the host's code.
  const requestId = context.requestId ?? requestIdOf(request.header('x-request-id'))
  const traceparent = context.traceparent ?? parseTraceparent(request.header('traceparent'))
  return enterContext({ ...context, requestId, traceparent }, () => {
    const known = tenancyErrorOf(error)
    if (known) logServerError(known, log, request.method)
    return toProblemResponse(error)
  })
}

export interface Problem {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The problem+json object. */
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * For a host's own routes: the problem of a Tenantry error, also in an error of a database library, or undefined for any other error. An unavailable database of Tenantry is
 * `E_DEPENDENCY_UNAVAILABLE`; any other database error may concern a database of the host.
 */
export function problemOf(error: unknown): Problem | undefined {
  const known = tenancyErrorOf(error)
  return known && problem(known)
}

export function problemResponse(error: TenancyError): Response {
  const { status, headers, body } = problem(error)
  return respondJson(status, body, headers)
}

export function problem({ code, title, status, detail, extras, retryAfterSeconds, headers }: TenancyError): Problem {
  const { requestId } = currentContext()
  const seconds = retryAfterSeconds ?? (status === 503 ? RETRY_AFTER_SECONDS : undefined)
  return {
    status,
    headers: {
      ...headers,
      'content-type': PROBLEM_TYPE,
      ...(seconds === undefined ? {} : { 'retry-after': String(Math.ceil(seconds)) }),
    },
    body: { ...extras, type: `urn:tenantry:problem:${code}`, title, status, detail, code, requestId },
  }
}
