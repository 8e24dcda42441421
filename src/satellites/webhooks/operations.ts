/** The same resource twice: of a tenant, and of the host, whose subscriptions receive events of all tenants. */
import { z } from 'zod'
import { Reply } from '../../kernel/api/operation.ts'
import { pageOf } from '../../kernel/api/page.ts'
import { UrlNotAllowed } from '../../kernel/egress/egress.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { Delivery, DeliveryDetail } from './model/delivery.ts'
import { DeliveryNotFound, WebhookDisabled, WebhookNotFound } from './model/errors.ts'
import { EventName } from './model/event-names.ts'
import { DeliveryQuery, ListQuery } from './model/queries.ts'
import { ReplayWindow } from './model/replay-window.ts'
import {
  NewSubscription,
  Rotation,
  Subscription,
  SubscriptionChange,
  SubscriptionWithSecret,
} from './model/subscription.ts'
import { operation, resource } from './part.ts'
import { DispatchRequest } from './queue/dispatch.ts'
import { WebhookEvent } from './subscriptions/catalogue.ts'
import type { Owner } from './subscriptions/subscriptions.ts'

const webhookId = z.uuid().meta({ description: 'Identifier of a subscription' })
const deliveryId = z.uuid().meta({ description: 'Identifier of a delivery' })

const TestRequest = z.strictObject({ event: EventName.optional().describe('Default `webhook.test`') })
/** Parsed parameters. */
type Params = Readonly<Record<string, unknown>>

interface Side {
  readonly names: string
  readonly path: string
  readonly owner: z.ZodRawShape
  readonly whose: string
  readonly ownerOf: (params: Params) => Owner
  /** Errors of every operation, and of those that write. */
  readonly absent: readonly (typeof TenantNotFound)[]
  readonly closed: readonly (typeof TenantState)[]
}

const TENANT: Side = {
  names: 'webhook',
  path: '/tenants/{id}/webhooks',
  owner: { id: TenantId },
  whose: "a tenant's",
  ownerOf: ({ id }) => String(id),
  absent: [TenantNotFound],
  closed: [TenantState],
}

const HOST: Side = {
  names: 'hostWebhook',
  path: '/webhooks',
  owner: {},
  whose: "the host's",
  ownerOf: () => null,
  absent: [],
  closed: [],
}

const subscriptionsOf = ({ names, path, owner, whose, ownerOf, absent, closed }: Side) => {
  const ofOne = z.object({ ...owner, webhookId })
  const one = `${path}/{webhookId}`
  const missing = [...absent, WebhookNotFound]
  const subscription = resource({
    state: Subscription,
    lock: (webhooks, params: z.output<typeof ofOne>) => webhooks.lock(ownerOf(params), params.webhookId),
  })
  return [
    operation({
      name: `${names}s.list`,
      method: 'GET',
      path,
      summary: `List ${whose} subscriptions, the newest first`,
      params: z.object(owner),
      query: ListQuery,
      reply: pageOf(Subscription),
      errors: absent,
      handle: (webhooks, { params, query }) => webhooks.list(ownerOf(params), query),
    }),
    operation({
      name: `${names}s.create`,
      method: 'POST',
      path,
      summary: `Create one of ${whose} subscriptions`,
      description:
        'The secret is returned once. The URL must be https with a public address, which is checked again for each connection.',
      params: z.object(owner),
      body: NewSubscription,
      reply: SubscriptionWithSecret.partial({ secret: true }),
      shownOnce: ['secret'],
      status: 201,
      errors: [...absent, ...closed, UrlNotAllowed],
      handle: async (webhooks, { params, body }) => {
        const made = await webhooks.create(ownerOf(params), body)
        return new Reply(201, made, { location: `${filled(path, params)}/${made.webhookId}` })
      },
    }),
    operation({
      name: `${names}s.get`,
      method: 'GET',
      path: one,
      summary: `Read one of ${whose} subscriptions`,
      params: ofOne,
      reply: Subscription,
      resource: subscription,
      errors: missing,
      handle: (webhooks, { params }) => webhooks.get(ownerOf(params), params.webhookId),
    }),
    operation({
      name: `${names}s.update`,
      method: 'PUT',
      path: one,
      summary: `Change one of ${whose} subscriptions`,
      description:
        'Absent members stay. A disabled subscription sends nothing: waiting deliveries fail, and can be replayed later.',
      params: ofOne,
      body: SubscriptionChange,
      reply: Subscription,
      resource: subscription,
      errors: [...missing, ...closed, UrlNotAllowed],
      handle: (webhooks, { params, body }) => webhooks.update(ownerOf(params), params.webhookId, body),
    }),
    operation({
      name: `${names}s.delete`,
      method: 'DELETE',
      path: one,
      summary: `Delete one of ${whose} subscriptions`,
      params: ofOne,
      reply: z.void(),
      resource: subscription,
      errors: [...missing, ...closed],
      handle: (webhooks, { params }) => webhooks.delete(ownerOf(params), params.webhookId),
    }),
    operation({
      name: `${names}s.rotateSecret`,
      method: 'POST',
      path: `${one}/rotate-secret`,
      summary: 'Replace the secret of a subscription',
      description:
        'The secret is returned once. For `graceSeconds` (default: a day) `webhook-signature` also has a signature by the former ' +
        'secret; `x-webhook-signature` is by the new one immediately.',
      params: ofOne,
      body: Rotation,
      bodyOptional: true,
      reply: SubscriptionWithSecret.partial({ secret: true }),
      shownOnce: ['secret'],
      errors: [...missing, ...closed],
      handle: (webhooks, { params, body }) => webhooks.rotateSecret(ownerOf(params), params.webhookId, body),
    }),
    operation({
      name: `${names}s.test`,
      method: 'POST',
      path: `${one}/test`,
      summary: 'Send a test event to one subscription only',
      description:
        'It ignores the event names of the subscription. `Prefer: wait=5` returns the result of the first attempt.',
      params: ofOne,
      body: TestRequest,
      bodyOptional: true,
      reply: Delivery,
      status: 202,
      errors: [...missing, ...closed, WebhookDisabled],
      handle: async (webhooks, { params, body }) =>
        accepted(path, params, await webhooks.test(ownerOf(params), params.webhookId, body.event)),
      settled: (webhooks, delivery, signal) => webhooks.settled(delivery, signal),
    }),
    operation({
      name: `${names}s.replayFailed`,
      method: 'POST',
      path: `${one}/replay-failed`,
      summary: 'Send all failed deliveries again that were dispatched in a time window',
      description: 'With `dryRun` it only answers how many that would be.',
      params: ofOne,
      body: ReplayWindow,
      bodyOptional: true,
      reply: z.object({ count: z.int() }),
      status: 202,
      errors: [...missing, WebhookDisabled],
      handle: (webhooks, { params, body }) => webhooks.replayFailed(ownerOf(params), params.webhookId, body),
    }),
  ]
}

const deliveriesOf = ({ names, path, owner, ownerOf, absent }: Side) => {
  const all = `${path}/{webhookId}/deliveries`
  const ofOne = z.object({ ...owner, webhookId, deliveryId })
  const missing = [...absent, WebhookNotFound]
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
      handle: async (webhooks, { params }) =>
        accepted(path, params, await webhooks.replay(ownerOf(params), params.webhookId, params.deliveryId)),
      settled: (webhooks, delivery, signal) => webhooks.settled(delivery, signal),
    }),
  ]
}

export const operations = [
  ...[TENANT, HOST].flatMap((side) => [...subscriptionsOf(side), ...deliveriesOf(side)]),
  operation({
    name: 'webhooks.dispatch',
    method: 'POST',
    path: '/tenants/{id}/dispatch',
    summary: 'Dispatch an event of a tenant to all matching subscriptions',
    description: 'For hosts that do not run Node.js. With an `Idempotency-Key`, a repeated request dispatches once.',
    params: z.object({ id: TenantId }),
    body: DispatchRequest,
    reply: z.object({ deliveries: z.array(z.uuid()) }),
    status: 202,
    errors: [TenantNotFound, TenantState],
    scope: 'runtime',
    handle: async (webhooks, { params, body }) => ({
      deliveries: await webhooks.dispatch(params.id, body.event, body.payload),
    }),
  }),
  operation({
    name: 'webhookEvents.list',
    method: 'GET',
    path: '/webhook-events',
    summary: 'List the events that Tenantry dispatches, with the JSON Schemas of their bodies',
    description: 'The list is not a limit: a host dispatches its own events under any name of the pattern.',
    query: ListQuery,
    reply: pageOf(WebhookEvent),
    handle: async (webhooks, { query }) => webhooks.catalogue.page(query),
  }),
]

const filled = (path: string, params: Params): string =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => String(params[name] ?? ''))

const accepted = (path: string, params: Params, delivery: Delivery): Reply<Delivery> =>
  new Reply(202, delivery, { location: `${filled(path, params)}/${delivery.webhookId}/deliveries/${delivery.id}` })
