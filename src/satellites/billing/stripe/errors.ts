/** What an error of Stripe's client means here, and what is kept of it. */
import { type BillingErrorCode, PaymentError } from '../model/provider.ts'

interface Thrown {
  readonly type?: string
  readonly code?: string
  readonly statusCode?: number
  readonly message?: string
  readonly requestId?: string
}

/** What is kept of an error: not the words of the provider, which may hold what a customer has typed. */
interface Rejection extends Pick<Thrown, 'type' | 'code' | 'statusCode' | 'requestId'> {
  /** A report whose answer was lost was sent again. */
  readonly isRepeated?: true
}

export function rejectionOf(error: unknown): Rejection {
  const { type, code, statusCode, requestId, message = '' } = (error ?? {}) as Thrown
  const isRepeated =
    code === 'duplicate_meter_event' || (code === undefined && /already exists with identifier/i.test(message))
  return { type, code, statusCode, requestId, ...(isRepeated ? { isRepeated } : {}) }
}

export const causeOf = (error: unknown): Rejection | undefined =>
  error instanceof PaymentError ? ((error.cause ?? undefined) as Rejection | undefined) : undefined

const CODES: Readonly<Record<string, BillingErrorCode>> = {
  StripeAuthenticationError: 'authentication_failed',
  StripePermissionError: 'authentication_failed',
  StripeRateLimitError: 'provider_rate_limited',
  StripeConnectionError: 'provider_unavailable',
  StripeAPIError: 'provider_unavailable',
  StripeInvalidRequestError: 'provider_rejected',
  StripeIdempotencyError: 'provider_rejected',
  StripeCardError: 'provider_rejected',
}

export function codeOf(error: unknown): BillingErrorCode {
  if (error instanceof PaymentError) return error.code
  const { type = '', statusCode } = (error ?? {}) as Thrown
  if (statusCode === 409) return 'provider_unavailable' // it is at the same request, or object, for somebody else
  return CODES[type] ?? 'unhandled'
}
