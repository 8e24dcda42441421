/** Replays of many deliveries: failed ones of one subscription or of all, and missing ones of a subscription. */
import { z } from 'zod'
import { WebhookDisabled, WebhookNotFound } from './model/errors.ts'
import { ReplayWindow } from './model/replay-window.ts'
import { operation } from './part.ts'
import { ofWebhook, type Side, webhookId } from './sides.ts'

const Count = z.object({ count: z.int() })

const WINDOW = {
  from: { flags: '--from <moment>', summary: 'RFC 3339 or a date; inclusive' },
  to: { flags: '--to <moment>', summary: 'RFC 3339 or a date; exclusive' },
  dryRun: 'only count them',
}

export const replaysOf = ({
  names,
  path,
  replayPath,
  owner,
  ofOwner,
  command,
  args,
  ownerOf,
  absent,
  closed,
}: Side) => {
  const ofOne = z.object({ ...owner, webhookId })
  const one = `${path}/{webhookId}`
  const ofOneArgs = { ...args, ...ofWebhook }
  return [
    operation({
      name: `${names}s.replayFailed`,
      method: 'POST',
      path: `${one}/replay-failed`,
      summary: 'Send all failed deliveries again that were dispatched in a time window',
      description: 'With `dryRun` it only answers how many that would be.',
      params: ofOne,
      body: ReplayWindow,
      bodyOptional: true,
      reply: Count,
      status: 202,
      errors: [...absent, WebhookNotFound, WebhookDisabled],
      command: { name: `${command}:replay-failed`, arguments: ofOneArgs, options: WINDOW },
      handle: (webhooks, { params, body }) => webhooks.replayFailed(ownerOf(params), params.webhookId, body),
    }),
    operation({
      name: `${names}s.replayAllFailed`,
      method: 'POST',
      path: replayPath,
      summary: `Send all failed deliveries again to all enabled subscriptions ${ofOwner}`,
      description: 'Of deliveries that were dispatched in the time window. With `dryRun` it only counts them.',
      params: z.object(owner),
      body: ReplayWindow,
      bodyOptional: true,
      reply: Count,
      status: 202,
      errors: absent,
      command: { name: `${command}:replay-all-failed`, arguments: args, options: WINDOW },
      handle: (webhooks, { params, body }) => webhooks.replayAllFailed(ownerOf(params), body),
    }),
    operation({
      name: `${names}s.replayMissing`,
      method: 'POST',
      path: `${one}/replay-missing`,
      summary:
        'Send events to a subscription that it has missed: dispatched before it existed, or while it was disabled',
      description:
        'Each event of the time window that matches the present event names and has no delivery to the subscription, once. An event ' +
        'that matched no subscription, enabled or disabled, was not stored. With `dryRun` it only counts them.',
      params: ofOne,
      body: ReplayWindow,
      bodyOptional: true,
      reply: Count,
      status: 202,
      errors: [...absent, ...closed, WebhookNotFound, WebhookDisabled],
      command: {
        name: `${command}:replay-missing`,
        summary: 'Send events that were dispatched before a subscription existed, or while it was disabled',
        arguments: ofOneArgs,
        options: WINDOW,
      },
      handle: (webhooks, { params, body }) => webhooks.replayMissing(ownerOf(params), params.webhookId, body),
    }),
  ]
}
