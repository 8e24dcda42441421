/** Actions on subscriptions and deliveries, of tenants and of the host. */
import { runAction } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import type { Action } from '../../../console/module.ts'
import { go } from '../../../console/routing/router.tsx'
import {
  kindOf,
  type ListedDelivery,
  type Owner,
  operationOf,
  ownerOf,
  paramsOf,
  pathOf,
  type Webhook,
  type Webhooks,
} from './api.ts'
import { text } from './text.ts'

const TENANT = 'tenant'

function setEnabled(webhook: Webhook, enabled: boolean): Promise<unknown> {
  const { tenantId, webhookId, url } = webhook
  return runAction(
    operationOf(tenantId, 'webhooks.update'),
    { params: paramsOf(tenantId, webhookId), body: { enabled } },
    {
      done: enabled ? text.enabledDone(url) : text.disabledDone(url),
      undo: () => setEnabled(webhook, !enabled),
    },
  )
}

/** @param side null: of the host */
function actionsOfSide(side: Owner): Action[] {
  const onWebhook = (action: Omit<Action<Webhook>, 'target'>): Action<Webhook> => ({
    ...action,
    target: kindOf(side, 'webhook'),
  })
  const test = operationOf(side, 'webhooks.test')
  const update = operationOf(side, 'webhooks.update')
  const replayFailed = operationOf(side, 'webhooks.replayFailed')
  const replayAllFailed = operationOf(side, 'webhooks.replayAllFailed')
  const replayMissing = operationOf(side, 'webhooks.replayMissing')
  const rotateSecret = operationOf(side, 'webhooks.rotateSecret')
  const remove = operationOf(side, 'webhooks.delete')
  const isEnabled = ({ enabled }: Webhook) => enabled
  const webhookActions = [
    onWebhook({
      name: `${update}.enable`,
      title: text.enable,
      needs: [update],
      isAvailable: ({ enabled }) => !enabled,
      run: (webhook) => setEnabled(webhook, true),
    }),
    onWebhook({
      name: test,
      title: `${text.test}…`,
      needs: [test],
      isAvailable: isEnabled,
      view: () => import('./send-test.tsx'),
    }),
    onWebhook({
      name: replayFailed,
      title: `${text.replayFailed}…`,
      needs: [replayFailed],
      key: 'R',
      isAvailable: isEnabled,
      view: async () => ({ default: (await import('./replay.tsx')).ReplayFailed }),
    }),
    onWebhook({
      name: replayMissing,
      title: `${text.replayMissing}…`,
      needs: [replayMissing],
      isAvailable: isEnabled,
      view: async () => ({ default: (await import('./replay.tsx')).ReplayMissing }),
    }),
    onWebhook({
      name: update,
      title: text.edit,
      needs: [update],
      run: ({ tenantId, webhookId }) => go(`${pathOf(tenantId, webhookId)}?open=edit`),
    }),
    onWebhook({
      name: rotateSecret,
      title: `${text.rotate}…`,
      needs: [rotateSecret],
      view: () => import('./rotate-secret.tsx'),
    }),
    onWebhook({
      name: `${update}.disable`,
      title: text.disable,
      needs: [update],
      isAvailable: isEnabled,
      run: (webhook) => setEnabled(webhook, false),
    }),
    onWebhook({
      name: remove,
      title: `${text.delete}…`,
      needs: [remove],
      isDestructive: true,
      view: () => import('./delete.tsx'),
    }),
  ]
  const replayAll: Action<Webhooks> = {
    name: replayAllFailed,
    title: `${text.replayAllFailed}…`,
    target: kindOf(side, 'webhooks'),
    needs: [replayAllFailed],
    key: 'R',
    view: async () => ({ default: (await import('./replay.tsx')).ReplayAllFailed }),
  }
  const replayOperation = operationOf(side, 'webhookDeliveries.replay')
  const replay: Action<ListedDelivery> = {
    name: replayOperation,
    title: `${text.replay}…`,
    target: kindOf(side, 'delivery'),
    needs: [replayOperation],
    key: 'r',
    isAvailable: (delivery) =>
      isPermitted(operationOf(side === null ? null : ownerOf(delivery), 'webhookDeliveries.replay')) &&
      delivery.state !== 'pending' &&
      delivery.state !== 'delivering',
    view: async () => {
      const { ReplayDelivery, ReplayHostDelivery } = await import('./replay.tsx')
      return { default: side === null ? ReplayHostDelivery : ReplayDelivery }
    },
  }
  return [...webhookActions, replayAll, replay]
}

export const actions: readonly Action[] = [...actionsOfSide(TENANT), ...actionsOfSide(null)]
