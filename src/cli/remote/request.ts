/**
 * Sends one request to a service.
 * - Redirects are not followed, so that only the given service receives the token.
 * - A POST has an `Idempotency-Key`. Without a response it is sent once more with the same key, so that the service carries it out once.
 * - A PUT, PATCH or DELETE without a response is not repeated: another caller may have changed the state since.
 */
import { randomUUID } from 'node:crypto'
import { IdempotencyInProgress } from '../../kernel/api/idempotency.ts'
import { DependencyUnavailable, defineError, TenancyError } from '../../kernel/base/errors.ts'

export const OutcomeUnknown = defineError('E_OUTCOME_UNKNOWN', 504, 'The service did not respond')

const PROBLEM_TYPE = 'application/problem+json'
const KEY = 'idempotency-key'
const READING = ['GET', 'HEAD']
/** Failures before the request was sent: system calls, and codes. */
const CONNECTING = ['connect', 'getaddrinfo']
const UNSENT = /^(UND_ERR_CONNECT_TIMEOUT|ERR_TLS_CERT_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_)/

interface Received {
  readonly status: number
  readonly statusText: string
  readonly location: string | null
  readonly isJson: boolean
  readonly text: string
  /** The body: a value if it is JSON, text otherwise, null if it is empty. */
  readonly result: unknown
}

interface Sending extends RequestInit {
  readonly signal: AbortSignal
  /** What to do if the service cannot be reached. */
  readonly remedy: string
  /** How to find out whether the change was made. */
  readonly look: string
  /** Other statuses of results. */
  readonly alsoStatus?: readonly number[] | undefined
}

/** Throws the problem of a response that is not successful, with its code. `E_OUTCOME_UNKNOWN` if a change had no response. */
export async function send(url: string, { remedy, look, alsoStatus = [], ...request }: Sending): Promise<Received> {
  const { method = 'GET' } = request
  const headers = new Headers(request.headers)
  if (method === 'POST' && !headers.has(KEY)) headers.set(KEY, randomUUID())
  const { response, text, failures } = await exchange(url, { ...request, headers })
  if (!response) {
    const isUnsent = READING.includes(method) || failures.every(isBeforeSending)
    const { origin } = new URL(url)
    throw isUnsent ? serviceUnreachable(origin, remedy, failures[0]) : outcomeUnknown(origin, look, failures[0])
  }
  const { status, statusText } = response
  const type = response.headers.get('content-type') ?? ''
  const value = /^application\/([a-z.-]+\+)?json\b/.test(type) ? jsonOf(text) : undefined
  const isJson = value !== undefined
  const result = isJson ? value : text || null
  if (status < 300 || (alsoStatus.includes(status) && !type.startsWith(PROBLEM_TYPE))) {
    return { status, statusText, location: response.headers.get('location'), isJson, text, result }
  }
  const problem = problemOf(status, result)
  // The first attempt had no response, and is still running.
  if (failures.length > 0 && IdempotencyInProgress.matches(problem))
    throw outcomeUnknown(new URL(url).origin, look, problem)
  throw problem
}

export const serviceUnreachable = (url: string, remedy: string, cause: unknown) =>
  DependencyUnavailable(`The service at ${url} cannot be reached. ${remedy}`, { cause })

export const outcomeUnknown = (url: string, look: string, cause: unknown) =>
  OutcomeUnknown(`The service at ${url} did not respond. It is unknown whether the change was made. ${look}`, { cause })

interface FetchFailure {
  /** `errors` are of several addresses of a host. */
  readonly cause?: Partial<NodeJS.ErrnoException> & { readonly errors?: readonly NodeJS.ErrnoException[] }
}

interface Exchanged {
  /** Undefined if no attempt had a response. */
  readonly response?: Response
  readonly text: string
  /** Of attempts without a response. */
  readonly failures: readonly FetchFailure[]
}

async function exchange(
  url: string,
  request: RequestInit & { signal: AbortSignal; headers: Headers },
): Promise<Exchanged> {
  const failures: FetchFailure[] = []
  while (failures.length < (request.headers.has(KEY) ? 2 : 1)) {
    try {
      const response = await fetch(url, { ...request, redirect: 'manual' })
      return { response, text: await response.text(), failures }
    } catch (error) {
      request.signal.throwIfAborted()
      failures.push(error as FetchFailure)
    }
  }
  return { text: '', failures }
}

function isBeforeSending({ cause }: FetchFailure): boolean {
  if (cause?.message === 'bad port') return true // fetch sends nothing to ports of other protocols
  return CONNECTING.includes(cause?.syscall ?? cause?.errors?.[0]?.syscall ?? '') || UNSENT.test(cause?.code ?? '')
}

/** Converts the response of the service to an error. Without a problem its code is `HTTP_` and the status. */
function problemOf(status: number, result: unknown): TenancyError {
  const problem = typeof result === 'object' && result !== null ? (result as Record<string, unknown>) : {}
  const {
    code = `HTTP_${status}`,
    title = `HTTP ${status}`,
    detail = `The service responded with status ${status}.`,
    type: _,
    status: __,
    ...extras
  } = problem
  return new TenancyError({ code: String(code), status, title: String(title) }, String(detail), { extras })
}

/** Undefined if it is not JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
