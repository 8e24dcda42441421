/** Subscriptions: the same resource of a tenant, and of the host, whose subscriptions receive events of all tenants. */
import { z } from 'zod'
import { Reply } from '../../kernel/api/operation.ts'
import { pageOf } from '../../kernel/api/page.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { UrlNotAllowed } from '../../kernel/egress/egress.ts'
import { Delivery } from './model/delivery.ts'
import { WebhookDisabled, WebhookNotFound } from './model/errors.ts'
import { EventName } from './model/event-names.ts'
import { ListQuery } from './model/queries.ts'
import {
  NewSubscription,
  Rotation,
  Subscription,
  SubscriptionChange,
  SubscriptionWithHealth,
  SubscriptionWithSecret,
} from './model/subscription.ts'
import { operation, resource } from './part.ts'
import { accepted, filled, ofWebhook, type Side, webhookId } from './sides.ts'

const TestRequest = z.strictObject({ event: EventName.optional().describe('Default `webhook.test`') })

const EVENTS = { flags: '--event <name...>', summary: 'name, prefix.* or *' }

function withSwitches({ disabled, bare, ...body }: Readonly<Record<string, any>>): unknown {
  if (disabled && body.enabled) throw invalid([{ path: 'enabled', message: 'Give either --enabled or --disabled.' }])
  if (bare && body.envelope) throw invalid([{ path: 'envelope', message: 'Give either --envelope or --bare.' }])
  return { ...body, ...(disabled ? { enabled: false } : {}), ...(bare ? { envelope: false } : {}) }
}

export const subscriptionsOf = ({ names, path, owner, ofOwner, command, args, ownerOf, absent, closed }: Side) => {
  const ofOne = z.object({ ...owner, webhookId })
  const one = `${path}/{webhookId}`
  const missing = [...absent, WebhookNotFound]
  const ofOneArgs = { ...args, ...ofWebhook }
  const subscription = resource({
    state: Subscription,
    lock: (webhooks, params: z.output<typeof ofOne>) => webhooks.lock(ownerOf(params), params.webhookId),
  })
  return [
    operation({
      name: `${names}s.list`,
      method: 'GET',
      path,
      summary: `List the webhook subscriptions ${ofOwner}, the newest first`,
      params: z.object(owner),
      query: ListQuery,
      reply: pageOf(SubscriptionWithHealth),
      errors: absent,
      command: {
        name: `${command}:list`,
        arguments: args,
        rows: ({ data }) =>
          data.map(({ webhookId, url, events, enabled, disabledReason, health }) => {
            return {
              webhookId,
              url,
              events,
              enabled,
              disabledReason,
              failingSince: health.failingSince,
              waiting: health.waiting,
            }
          }),
      },
      handle: (webhooks, { params, query }) => webhooks.list(ownerOf(params), query),
    }),
    operation({
      name: `${names}s.create`,
      method: 'POST',
      path,
      summary: `Create a webhook subscription ${ofOwner}`,
      description:
        'The secret is returned once. The URL must be https with a public address, which is checked again for each connection.',
      params: z.object(owner),
      body: NewSubscription,
      reply: SubscriptionWithSecret.partial({ secret: true }),
      shownOnce: ['secret'],
      status: 201,
      errors: [...absent, ...closed, UrlNotAllowed],
      command: {
        name: `${command}:create`,
        summary: `Create a webhook subscription ${ofOwner}, and print its secret once`,
        arguments: { ...args, url: 'https URL with a public address' },
        options: {
          events: EVENTS,
          secret: { summary: 'signing secret; default: a generated one', isSecret: true },
          description: { flags: '--description <text>' },
          enabled: { flags: '--no-enabled', summary: 'create it disabled' },
          envelope: 'send type, id and time in the body, with the payload as data',
        },
      },
      handle: async (webhooks, { params, body }) => {
        const made = await webhooks.create(ownerOf(params), body)
        return new Reply(201, made, { location: `${filled(path, params)}/${made.webhookId}` })
      },
    }),
    operation({
      name: `${names}s.get`,
      method: 'GET',
      path: one,
      summary: `Read a webhook subscription ${ofOwner}`,
      description: 'Changes of `health` do not change the ETag.',
      params: ofOne,
      reply: SubscriptionWithHealth,
      resource: subscription,
      errors: missing,
      command: { name: `${command}:show`, summary: `Show a webhook subscription ${ofOwner}`, arguments: ofOneArgs },
      handle: (webhooks, { params }) => webhooks.get(ownerOf(params), params.webhookId),
    }),
    operation({
      name: `${names}s.update`,
      method: 'PUT',
      path: one,
      summary: `Change a webhook subscription ${ofOwner}`,
      description:
        'Absent members stay. `envelope` also applies to waiting deliveries. A disabled subscription sends nothing: waiting deliveries fail, and can be replayed later.',
      params: ofOne,
      body: SubscriptionChange,
      reply: Subscription,
      resource: subscription,
      errors: [...missing, ...closed, UrlNotAllowed],
      command: {
        name: `${command}:update`,
        arguments: ofOneArgs,
        options: {
          url: { flags: '--url <url>', summary: 'new URL' },
          events: EVENTS,
          description: { flags: '--description <text>' },
          enabled: 'enable it',
          disabled: { flags: '--disabled', summary: 'disable it; waiting deliveries fail' },
          envelope: 'send type, id and time in the body, with the payload as data',
          bare: { flags: '--bare', summary: 'send only the payload' },
        },
        body: withSwitches,
      },
      handle: (webhooks, { params, body }) => webhooks.update(ownerOf(params), params.webhookId, body),
    }),
    operation({
      name: `${names}s.delete`,
      method: 'DELETE',
      path: one,
      summary: `Delete a webhook subscription ${ofOwner}`,
      params: ofOne,
      reply: z.void(),
      resource: subscription,
      errors: [...missing, ...closed],
      command: {
        name: `${command}:delete`,
        arguments: ofOneArgs,
        question: ({ params }) => `Delete the subscription ${params.webhookId}? Its waiting deliveries fail.`,
        record: (_, { params }) => ({ ...params, deleted: true }),
      },
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
      command: {
        name: `${command}:rotate-secret`,
        summary: 'Replace the secret of a subscription, and print the new one once',
        arguments: ofOneArgs,
        options: {
          graceSeconds: {
            flags: '--grace <seconds>',
            summary: 'time in which the former secret also signs; default a day',
          },
        },
      },
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
      command: { name: `${command}:test`, arguments: ofOneArgs, options: { event: 'name; default webhook.test' } },
      handle: async (webhooks, { params, body }) =>
        accepted(path, params, await webhooks.test(ownerOf(params), params.webhookId, body.event)),
      settled: (webhooks, delivery, signal) => webhooks.settled(delivery, signal),
    }),
  ]
}
