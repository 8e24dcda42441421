/** Deliveries of the subscriptions of a tenant, and of the host. */
import { z } from 'zod'
import { pageOf } from '../../kernel/api/page.ts'
import { Delivery, DeliveryDetail, STATES } from './model/delivery.ts'
import { DeliveryNotFound, WebhookDisabled, WebhookNotFound } from './model/errors.ts'
import { DeliveryQuery } from './model/queries.ts'
import { operation } from './part.ts'
import { accepted, ofWebhook, type Side, webhookId } from './sides.ts'

const deliveryId = z.uuid().meta({ description: 'Identifier of a delivery' })

export const deliveriesOf = ({ names, path, owner, command, args, ownerOf, absent }: Side) => {
  const all = `${path}/{webhookId}/deliveries`
  const ofOne = z.object({ ...owner, webhookId, deliveryId })
  const missing = [...absent, WebhookNotFound]
  const ofOneArgs = { ...args, ...ofWebhook, deliveryId: { name: 'delivery', summary: 'id of the delivery' } }
  return [
    operation({
      name: `${names}Deliveries.list`,
      method: 'GET',
      path: all,
      summary: "List a subscription's deliveries, the newest first",
      params: z.object({ ...owner, webhookId }),
      query: DeliveryQuery,
      reply: pageOf(Delivery),
      errors: missing,
      command: {
        name: `${command}:deliveries:list`,
        arguments: { ...args, ...ofWebhook },
        options: {
          state: STATES.join(', '),
          event: 'only of this event',
          from: { flags: '--from <moment>', summary: 'RFC 3339 or a date; inclusive' },
          to: { flags: '--to <moment>', summary: 'RFC 3339 or a date; exclusive' },
        },
        rows: ({ data }) =>
          data.map(({ id, event, state, attemptCount, lastStatus, nextRetryAt, createdAt }) => {
            return { id, event, state, attemptCount, lastStatus, nextRetryAt, createdAt }
          }),
      },
      handle: (webhooks, { params, query }) => webhooks.deliveries(ownerOf(params), params.webhookId, query),
    }),
    operation({
      name: `${names}Deliveries.get`,
      method: 'GET',
      path: `${all}/{deliveryId}`,
      summary: 'Read a delivery: its body, every attempt, and an explanation of its state',
      params: ofOne,
      reply: DeliveryDetail,
      errors: [...missing, DeliveryNotFound],
      command: {
        name: `${command}:deliveries:show`,
        summary: 'Show a delivery: its body, every attempt, and an explanation of its state',
        arguments: ofOneArgs,
      },
      handle: (webhooks, { params }) => webhooks.delivery(ownerOf(params), params.webhookId, params.deliveryId),
    }),
    operation({
      name: `${names}Deliveries.replay`,
      method: 'POST',
      path: `${all}/{deliveryId}/replay`,
      summary: 'Send a delivery again',
      description:
        'With the same id and all attempts. A delivery that waits for its next attempt is sent immediately; one in flight is ' +
        'returned unchanged.',
      params: ofOne,
      reply: Delivery,
      status: 202,
      errors: [...missing, DeliveryNotFound, WebhookDisabled],
      command: { name: `${command}:deliveries:replay`, arguments: ofOneArgs },
      handle: async (webhooks, { params }) =>
        accepted(path, params, await webhooks.replay(ownerOf(params), params.webhookId, params.deliveryId)),
      settled: (webhooks, delivery, signal) => webhooks.settled(delivery, signal),
    }),
  ]
}
