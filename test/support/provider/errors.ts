/** How the provider refuses: a status and the `error` object that the client turns into its own error classes. */

export interface ErrorBody {
  readonly type: 'api_error' | 'card_error' | 'idempotency_error' | 'invalid_request_error'
  readonly message: string
  readonly code?: string
  readonly decline_code?: string
  readonly param?: string
}

export class ProviderError extends Error {
  readonly status: number
  readonly body: ErrorBody
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, body: ErrorBody, headers: Readonly<Record<string, string>> = {}) {
    super(body.message)
    this.status = status
    this.body = body
    this.headers = headers
  }
}

export const invalid = (message: string, param?: string, code?: string): ProviderError =>
  new ProviderError(400, { type: 'invalid_request_error', message, param, code })

export const missing = (param: string): ProviderError =>
  invalid(`Missing required param: ${param}.`, param, 'parameter_missing')

/** What the path names is not there. */
export const noSuch = (noun: string, id: string): ProviderError =>
  new ProviderError(404, {
    type: 'invalid_request_error',
    code: 'resource_missing',
    param: 'id',
    message: `No such ${noun}: '${id}'`,
  })

/** What a parameter names is not there. */
export const noSuchParam = (noun: string, id: string, param: string): ProviderError =>
  invalid(`No such ${noun}: '${id}'`, param, 'resource_missing')

export const declined = (): ProviderError =>
  new ProviderError(402, {
    type: 'card_error',
    code: 'card_declined',
    decline_code: 'generic_decline',
    message: 'Your card was declined.',
  })

/** The body of an answer that a test asked for, by its status. */
export function bodyOf(status: number): ErrorBody {
  if (status === 429) {
    return { type: 'invalid_request_error', code: 'rate_limit', message: 'Request rate limit exceeded.' }
  }
  if (status === 409) {
    return { type: 'invalid_request_error', code: 'lock_timeout', message: 'This object is being changed, try again.' }
  }
  if (status === 402) return declined().body
  if (status < 500) return { type: 'invalid_request_error', message: `Refused with ${status}, as the test asked.` }
  return { type: 'api_error', message: 'An error occurred on the side of the provider.' }
}
