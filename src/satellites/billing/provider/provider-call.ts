/** What the provider refuses becomes an error of ours; its own words stay in the log. */
import { DependencyUnavailable } from '../../../kernel/base/errors.ts'
import type { BillingDependencies } from '../model/dependencies.ts'
import { PaymentRejected, SubscriptionNotFound } from '../model/errors.ts'
import { type BillingErrorCode, PaymentError, paymentErrorOf } from '../model/provider.ts'

/** What an operator has to mend. */
const DETAILS: Partial<Record<BillingErrorCode, string>> = {
  authentication_failed: 'The provider of payments does not take the key of this installation.',
  customer_not_found:
    'The provider of payments does not know the customer: the key is of another account, or another mode.',
  payload_invalid: 'The provider of payments answers in another version of its API than the one that is configured.',
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
    if (code === 'subscription_not_found') throw SubscriptionNotFound('The provider has no such subscription.')
    if (code === 'provider_rejected') {
      throw PaymentRejected('The provider of payments has refused; the log says why.')
    }
    kernel.log.warn({ operation, tenantId, code }, 'the provider of payments could not be asked')
    const detail = DETAILS[code] ?? 'The provider of payments cannot be reached at the moment. Try again.'
    const { retryAfterSeconds } = kernel.resilience
    throw DependencyUnavailable(detail, { retryAfterSeconds, cause: new PaymentError(code) })
  }
}
