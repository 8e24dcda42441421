/** Console module of webhooks: subscriptions and deliveries of tenants and of the host. */
import { defineConsoleModule } from '../../../console/module.ts'
import { actions } from './actions.ts'
import { restoration } from './restoration.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'webhooks',
  screens: [
    {
      path: '/deliveries',
      title: text.deliveries,
      needs: ['webhookDeliveries.listAll'],
      search: 'webhookDeliveries.listAll',
      navigation: { icon: 'deliveries', order: 20 },
      key: 'd',
      view: () => import('./deliveries.tsx'),
    },
    {
      path: '/webhooks',
      title: text.hostWebhooks,
      needs: ['hostWebhooks.list'],
      search: 'hostWebhooks.list',
      view: () => import('./subscriptions.tsx'),
    },
    {
      path: '/webhooks/{webhookId}',
      title: text.subscription,
      needs: ['hostWebhooks.get', 'hostWebhookDeliveries.list'],
      search: 'hostWebhookDeliveries.list',
      view: () => import('./subscription.tsx'),
    },
    {
      path: '/webhooks/{webhookId}/deliveries/{deliveryId}',
      title: text.delivery,
      needs: ['hostWebhookDeliveries.get'],
      view: () => import('./delivery.tsx'),
    },
  ],
  tabs: [
    {
      path: 'webhooks',
      title: text.webhooks,
      needs: ['webhooks.list'],
      order: 30,
      search: 'webhooks.list',
      view: () => import('./subscriptions.tsx'),
    },
    {
      path: 'webhooks/{webhookId}',
      title: text.subscription,
      isListed: false,
      needs: ['webhooks.get', 'webhookDeliveries.list'],
      search: 'webhookDeliveries.list',
      view: () => import('./subscription.tsx'),
    },
    {
      path: 'webhooks/{webhookId}/deliveries/{deliveryId}',
      title: text.delivery,
      isListed: false,
      needs: ['webhookDeliveries.get'],
      view: () => import('./delivery.tsx'),
    },
  ],
  cards: [{ needs: ['webhooks.list'], order: 30, view: () => import('./card.tsx') }],
  columns: [
    {
      key: 'webhooks',
      title: text.tenantColumn,
      needs: ['webhooks.list', 'attention.list'],
      read: 'attention.list',
      input: { query: { kind: 'webhookFailing' } },
      view: async () => ({ default: (await import('./card.tsx')).FailingCell }),
    },
  ],
  actions,
  restorations: [restoration],
  restorationLimits: { webhook: text.notRestored },
})
