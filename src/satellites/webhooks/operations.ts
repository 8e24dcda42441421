/** The same resource twice: of a tenant, and of the host, whose subscriptions hear of all tenants. */
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
/** As they were parsed: texts. */
type Params = Readonly<Record<string, unknown>>

interface Side {
  readonly names: string
  readonly path: string
  readonly owner: z.ZodRawShape
  readonly whose: string
  readonly ownerOf: (params: Params) => Owner
  /** What every operation may answer, and what those that write may. */
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
  whose: "the host's own",
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
        'The secret is answered this once. The URL is https, of a public address; that is checked again wherever it is dialled.',
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
        'What is left out stays. While it is disabled nothing is sent: what waits ends as failed, and can be replayed later.',
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
      summary: 'Give a subscription a new secret',
      description:
        'The secret is answered this once. For `graceSeconds` (default a day) `webhook-signature` holds a signature by the one ' +
        'before, too; `x-webhook-signature` is by the new one at once.',
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
      summary: 'Send a test event to one subscription alone',
      description: 'Whatever the subscription names. `Prefer: wait=5` answers what became of its first attempt.',
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
      summary: 'Send again all that has failed, of what was dispatched in a window',
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
      summary: 'Read a delivery: its body, every attempt, and why it is not delivered',
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
        'Under the same id, with a fresh budget of attempts. One that waits for its next attempt is tried at once; one that is on ' +
        'its way is answered as it is.',
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
    summary: 'Send an event of a tenant to all who subscribed to it',
    description: 'For hosts that are not Node. An `Idempotency-Key` makes a repeated request dispatch once.',
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
    summary: 'List the events that are dispatched by themselves, with the JSON Schemas of their bodies',
    description:
      'The catalogue informs, it does not limit: a host dispatches events of its own under any name of the pattern.',
    query: ListQuery,
    reply: pageOf(WebhookEvent),
    handle: async (webhooks, { query }) => webhooks.catalogue.page(query),
  }),
]

const filled = (path: string, params: Params): string =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => String(params[name] ?? ''))

const accepted = (path: string, params: Params, delivery: Delivery): Reply<Delivery> =>
  new Reply(202, delivery, { location: `${filled(path, params)}/${delivery.webhookId}/deliveries/${delivery.id}` })
