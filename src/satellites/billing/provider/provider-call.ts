/** Converts errors of the provider into errors of Tenantry. The provider's own messages are only logged. */
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import type { BillingDependencies } from '../model/dependencies.ts'
import { PaymentRejected, SubscriptionNotFound } from '../model/errors.ts'
import { type BillingErrorCode, PaymentError, paymentErrorOf } from '../model/provider.ts'

/** Errors that an operator has to fix. */
const DETAILS: Partial<Record<BillingErrorCode, string>> = {
  authentication_failed: 'The payment provider rejected the API key of this installation. Check billing.stripe.apiKey.',
  customer_not_found:
    'The payment provider does not know the customer: the API key belongs to another account or another mode. Check billing.stripe.apiKey.',
  payload_invalid:
    'The payment provider responded in another API version than the configured one. Check billing.stripe.apiVersion.',
}

export async function callProvider<T>(
  { kernel }: BillingDependencies,
  operation: string,
  tenantId: string | null,
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call()
  } catch (error) {
    const { code } = paymentErrorOf(error)
    if (code === 'unhandled') throw error
    if (code === 'subscription_not_found') throw SubscriptionNotFound('Subscription not found at the payment provider.')
    if (code === 'provider_rejected') {
      throw PaymentRejected('The payment provider rejected the request. The reason is in the log.')
    }
    kernel.log.warn({ operation, tenantId, code }, 'a request to the payment provider failed')
    const detail = DETAILS[code] ?? 'The payment provider is unavailable. Try again later.'
    const { retryAfterSeconds } = kernel.resilience
    throw DependencyUnavailable(detail, { retryAfterSeconds, cause: new PaymentError(code) })
  }
}
