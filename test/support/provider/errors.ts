/** Error responses of the provider: a status and the `error` object that the client converts into its error classes. */

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

/** The object in the path does not exist. */
export const noSuch = (noun: string, id: string): ProviderError =>
  new ProviderError(404, {
    type: 'invalid_request_error',
    code: 'resource_missing',
    param: 'id',
    message: `No such ${noun}: '${id}'`,
  })

/** The object in a parameter does not exist. */
export const noSuchParam = (noun: string, id: string, param: string): ProviderError =>
  invalid(`No such ${noun}: '${id}'`, param, 'resource_missing')

export const declined = (): ProviderError =>
  new ProviderError(402, {
    type: 'card_error',
    code: 'card_declined',
    decline_code: 'generic_decline',
    message: 'Your card was declined.',
  })

/** Body of a simulated error response, by its status. */
export function bodyOf(status: number): ErrorBody {
  if (status === 429) {
    return { type: 'invalid_request_error', code: 'rate_limit', message: 'Request rate limit exceeded.' }
  }
  if (status === 409) {
    return { type: 'invalid_request_error', code: 'lock_timeout', message: 'This object is being changed, try again.' }
  }
  if (status === 402) return declined().body
  if (status < 500)
    return { type: 'invalid_request_error', message: `Rejected with ${status}, as requested by the test.` }
  return { type: 'api_error', message: 'An error occurred on the side of the provider.' }
}
