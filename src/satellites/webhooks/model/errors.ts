import { defineError } from '../../../kernel/base/errors.ts'

export const WebhookNotFound = defineError('E_WEBHOOK_NOT_FOUND', 404, 'Subscription not found')
export const DeliveryNotFound = defineError('E_DELIVERY_NOT_FOUND', 404, 'Delivery not found')
export const WebhookDisabled = defineError('E_WEBHOOK_DISABLED', 409, 'Subscription disabled')
