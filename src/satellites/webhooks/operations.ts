import { z } from 'zod'
import { pageOf } from '../../kernel/api/page.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { deliveriesOf, deliveriesOfAll } from './delivery-operations.ts'
import { ListQuery } from './model/queries.ts'
import { operation } from './part.ts'
import { DispatchRequest } from './queue/dispatch.ts'
import { replaysOf } from './replay-operations.ts'
import { HOST, TENANT } from './sides.ts'
import { subscriptionsOf } from './subscription-operations.ts'
import { WebhookEvent } from './subscriptions/catalogue.ts'

export const operations = [
  ...[TENANT, HOST].flatMap((side) => [...subscriptionsOf(side), ...replaysOf(side), ...deliveriesOf(side)]),
  ...deliveriesOfAll,
  operation({
    name: 'webhooks.dispatch',
    changesOutside: true,
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
    command: {
      name: 'tenant:webhooks:dispatch',
      arguments: { id: 'id of the tenant', event: 'name of the event', payload: { summary: 'a JSON object' } },
      rows: ({ deliveries }) => deliveries.map((delivery) => ({ delivery })),
    },
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
    command: {
      name: 'webhooks:events:list',
      summary: 'List the events that Tenantry dispatches; with --json with the JSON Schemas of their bodies',
      rows: ({ data }) => data.map(({ name, summary }) => ({ name, summary })),
    },
    handle: async (webhooks, { query }) => webhooks.catalogue.page(query),
  }),
]
