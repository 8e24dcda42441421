import { defineError } from '../../../kernel/base/errors.ts'

export const AddressNotAllowed = defineError('E_ADDRESS_NOT_ALLOWED', 403, 'This address may not send here')
export const SubscriptionNotFound = defineError('E_SUBSCRIPTION_NOT_FOUND', 404, 'There is no such subscription')
export const PriceNotMapped = defineError('E_PRICE_NOT_MAPPED', 422, 'The price stands for no plan')
export const PaymentRejected = defineError('E_PAYMENT_REJECTED', 422, 'The provider of payments has refused')
