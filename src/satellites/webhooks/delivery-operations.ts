/** Deliveries of the subscriptions of a tenant, and of the host. */
import { z } from 'zod'
import { pageOf } from '../../kernel/api/page.ts'
import { TenantNotFound } from '../../tenants/tenant/errors.ts'
import { Delivery, DeliveryDetail, DeliveryOfAny, STATES } from './model/delivery.ts'
import { DeliveryNotFound, WebhookDisabled, WebhookNotFound } from './model/errors.ts'
import { AllDeliveriesQuery, DeliveryQuery } from './model/queries.ts'
import { Stats, StatsQuery } from './model/stats.ts'
import { operation } from './part.ts'
import { accepted, ofWebhook, type Side, webhookId } from './sides.ts'

const deliveryId = z.uuid().meta({ description: 'Identifier of a delivery' })

/** Options of commands. */
const FILTERS = {
  state: STATES.join(', '),
  event: 'only of this event',
  status: { flags: '--status <status>', summary: 'last status such as 503, a class such as 5xx, or none' },
  sameResponseAs: { flags: '--same-response-as <delivery>', summary: 'only with the same last status, error and body' },
  from: { flags: '--from <moment>', summary: 'RFC 3339 or a date; inclusive' },
  to: { flags: '--to <moment>', summary: 'RFC 3339 or a date; exclusive' },
}

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
      errors: [...missing, DeliveryNotFound],
      command: {
        name: `${command}:deliveries:list`,
        arguments: { ...args, ...ofWebhook },
        options: FILTERS,
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

/** Over all subscriptions, of tenants and of the host. */
export const deliveriesOfAll = [
  operation({
    name: 'webhookDeliveries.listAll',
    method: 'GET',
    path: '/webhook-deliveries',
    summary: 'List the deliveries of all subscriptions, the newest first',
    description: 'Filters by an event that is rare read many deliveries: limit the time with `from`.',
    query: AllDeliveriesQuery,
    reply: pageOf(DeliveryOfAny),
    errors: [DeliveryNotFound],
    command: {
      name: 'webhooks:deliveries:list-all',
      options: {
        tenantId: { flags: '--tenant <id>', summary: 'only to subscriptions of this tenant' },
        ...FILTERS,
      },
      rows: ({ data }) =>
        data.map(({ id, owner, event, state, attemptCount, lastStatus, nextRetryAt, createdAt }) => {
          return { id, owner, event, state, attemptCount, lastStatus, nextRetryAt, createdAt }
        }),
    },
    handle: (webhooks, { query }) => webhooks.allDeliveries(query),
  }),
  operation({
    name: 'webhooks.stats',
    method: 'GET',
    path: '/webhook-stats',
    summary: 'Count deliveries by hour or day of their dispatch, with percentiles of durations',
    description: 'At most 750 steps. Over 20,000 deliveries, the numbers are estimates from a sample.',
    query: StatsQuery,
    reply: Stats,
    errors: [TenantNotFound, WebhookNotFound],
    command: {
      name: 'webhooks:stats',
      options: {
        tenantId: { flags: '--tenant <id>', summary: 'only to subscriptions of this tenant' },
        webhookId: { flags: '--webhook <id>', summary: 'only to this subscription' },
        from: { flags: '--from <moment>', summary: 'RFC 3339 or a date; default 24 hours or 30 days before the end' },
        to: { flags: '--to <moment>', summary: 'RFC 3339 or a date; default now' },
        step: 'hour, day',
      },
      rows: ({ data }) => data,
    },
    handle: (webhooks, { query }) => webhooks.stats(query),
  }),
]
