import { defineError } from '../../../kernel/base/errors.ts'

export const AddressNotAllowed = defineError('E_ADDRESS_NOT_ALLOWED', 403, 'Sender address not allowed')
export const SubscriptionNotFound = defineError('E_SUBSCRIPTION_NOT_FOUND', 404, 'Subscription not found')
export const PriceNotMapped = defineError('E_PRICE_NOT_MAPPED', 422, 'Price not mapped to a plan')
export const PaymentRejected = defineError('E_PAYMENT_REJECTED', 422, 'Payment provider rejected the request')
