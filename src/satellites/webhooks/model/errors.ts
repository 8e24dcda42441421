import { defineError } from '../../../kernel/base/errors.ts'

export const WebhookNotFound = defineError('E_WEBHOOK_NOT_FOUND', 404, 'There is no such subscription')
export const DeliveryNotFound = defineError('E_DELIVERY_NOT_FOUND', 404, 'There is no such delivery')
export const WebhookDisabled = defineError('E_WEBHOOK_DISABLED', 409, 'The subscription is disabled')
