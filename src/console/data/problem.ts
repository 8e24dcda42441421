/** A rejected call: the problem (RFC 9457) of the response, or a failure of the connection. */
import { text } from './text.ts'

export interface FieldError {
  readonly path: string
  readonly message: string
}

export class Problem extends Error {
  /** 0 if there was no response. */
  readonly status: number
  readonly code: string
  readonly requestId: string | null
  readonly errors: readonly FieldError[]
  readonly retryAfterSeconds: number | undefined
  /** Further members of the problem. */
  readonly extras: Readonly<Record<string, unknown>>

  constructor(status: number, body: Readonly<Record<string, any>>, retryAfterSeconds?: number) {
    super(body.detail ?? body.title ?? text.status(status))
    this.status = status
    this.code = body.code ?? 'E_UNKNOWN'
    this.requestId = body.requestId ?? null
    this.errors = body.errors ?? []
    this.retryAfterSeconds = retryAfterSeconds
    this.extras = body
  }

  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503
  }
}

export const unreachable = (): Problem => new Problem(0, { code: 'E_UNREACHABLE', detail: text.unreachable })

export async function problemOf(response: Response): Promise<Problem> {
  const isProblem = response.headers.get('content-type')?.startsWith('application/problem+json') ?? false
  const retryAfter = Number(response.headers.get('retry-after')) || undefined
  return new Problem(response.status, isProblem ? await response.json() : {}, retryAfter)
}

export const toProblem = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(0, { code: 'E_CONSOLE', detail: String(error) })
