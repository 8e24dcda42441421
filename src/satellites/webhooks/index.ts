import { on, onAny } from '../../kernel/events.ts'
import { parsed } from '../../kernel/parsed.ts'
import { defineSatellite } from '../../satellite.ts'
import { TenantPurged } from '../../tenants/events.ts'
import { commands } from './commands.ts'
import { diagnoses } from './doctor.ts'
import { WebhookDeliveryFailed, WebhookSubscriptionDisabled } from './events.ts'
import { jobs, schedule } from './jobs.ts'
import { operations } from './operations.ts'
import { Options, type WebhooksOptions, withDefaults } from './options.ts'
import { bindingOf } from './subscriptions.ts'
import { tables } from './tables.ts'
import { Webhooks } from './webhooks.ts'

export type { Attempt, Delivery, DeliveryDetail } from './delivery.ts'
export { WebhookDeliveryFailed, WebhookSubscriptionDisabled } from './events.ts'
export type { WebhooksOptions } from './options.ts'
export type { Subscription, SubscriptionWithSecret } from './subscription.ts'
export type { Webhooks } from './webhooks.ts'

export const webhooks = (options: WebhooksOptions = {}) => {
  const settings = withDefaults(parsed(Options, options, 'webhooks'))
  return defineSatellite({
    name: 'webhooks',
    summary: 'Events of tenants, sent to whoever subscribed: signed, retried, each attempt kept, replayed on demand',
    tables,
    events: [WebhookSubscriptionDisabled, WebhookDeliveryFailed],
    sealed: ['secret', 'previous_secret'].map((column) => ({
      table: 'webhook_subscriptions',
      key: 'id',
      column,
      binding: bindingOf,
    })),
    service: (kernel) => new Webhooks(kernel, settings),
    operations,
    commands,
    listeners: [
      ...(settings.bridge ? [onAny('within', (webhooks: Webhooks, type, event) => webhooks.bridge(type, event))] : []),
      on(TenantPurged, 'within', (webhooks: Webhooks, { tenantId }) => webhooks.forget(tenantId)),
    ],
    jobs,
    schedule,
    work: (webhooks) => webhooks.work(),
    queues: (webhooks, tenantId) => webhooks.queues(tenantId),
    metrics: (webhooks) => webhooks.series.series(),
    doctor: diagnoses,
    stop: (webhooks) => webhooks.stop(),
  })
}

export default webhooks
