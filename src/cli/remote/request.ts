/** Sends one request to a service. Redirects are not followed, so that only the given service receives the token. */
import { DependencyUnavailable, TenancyError } from '../../kernel/base/errors.ts'

interface Received {
  readonly status: number
  readonly statusText: string
  readonly isJson: boolean
  readonly text: string
  /** The body: a value if it is JSON, text otherwise, null if it is empty. */
  readonly result: unknown
}

interface Sending extends RequestInit {
  readonly signal: AbortSignal
  /** What to do if the service cannot be reached. */
  readonly remedy: string
}

/** Throws the problem of a response that is not successful, with its code. */
export async function send(url: string, { remedy, ...request }: Sending): Promise<Received> {
  const { response, text } = await exchange(url, request).catch((error) => {
    request.signal.throwIfAborted()
    throw serviceUnreachable(new URL(url).origin, remedy, error)
  })
  const { status, statusText, headers } = response
  const value = /^application\/([a-z.-]+\+)?json\b/.test(headers.get('content-type') ?? '') ? jsonOf(text) : undefined
  const isJson = value !== undefined
  const result = isJson ? value : text || null
  if (status >= 300) throw problemOf(status, result)
  return { status, statusText, isJson, text, result }
}

export const serviceUnreachable = (url: string, remedy: string, cause: unknown) =>
  DependencyUnavailable(`The service at ${url} cannot be reached. ${remedy}`, { cause })

async function exchange(url: string, request: RequestInit): Promise<{ response: Response; text: string }> {
  const response = await fetch(url, { ...request, redirect: 'manual' })
  return { response, text: await response.text() }
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
