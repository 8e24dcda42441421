/** Converts errors of Stripe's client into billing error codes, and selects the members that may be logged. */
import { type BillingErrorCode, PaymentError } from '../model/provider.ts'

interface Thrown {
  readonly type?: string
  readonly code?: string
  readonly statusCode?: number
  readonly message?: string
  readonly requestId?: string
}

/** Loggable members of an error. The provider's message is left out: it may contain input of a customer. */
interface Rejection extends Pick<Thrown, 'type' | 'code' | 'statusCode' | 'requestId'> {
  /** The provider has already counted a report with this identifier: an earlier response was lost. */
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
  // 409: a concurrent request with the same key, or on the same object, is in flight.
  if (statusCode === 409) return 'provider_unavailable'
  return CODES[type] ?? 'unhandled'
}
