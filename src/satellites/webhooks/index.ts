import { parsed } from '../../kernel/base/validate.ts'
import { sharedNames } from '../../kernel/declarations/declared-names.ts'
import { cachedGauges, MEDIUM_SHARE } from '../../kernel/metrics/cached-gauges.ts'
import { outboxEntry } from '../../kernel/outbox/kinds.ts'
import { defineSatellite, type NamedSatellite, optionTexts, type ServiceType } from '../../tenancy/satellite.ts'
import { TenantPurged } from '../../tenants/tenant/events.ts'
import { commands } from './commands.ts'
import { diagnoses } from './doctor.ts'
import { jobs, schedule } from './jobs.ts'
import { WebhookDeliveryFailed, WebhookSubscriptionDisabled } from './model/events.ts'
import { type EventSchemas, Options, type WebhooksOptions, withDefaults } from './model/options.ts'
import { tables } from './model/tables.ts'
import { operations } from './operations.ts'
import { contributions } from './overview.ts'
import { on, onAny } from './part.ts'
import { DISPATCH, DispatchRequest } from './queue/dispatch.ts'
import { deliveriesSystem } from './queue/erasure.ts'
import { searchProviders } from './search.ts'
import { bindingOf } from './subscriptions/subscriptions.ts'
import { Webhooks } from './webhooks.ts'

export type { Attempt, Delivery, DeliveryDetail, DeliveryOfAny } from './model/delivery.ts'
export { WebhookDeliveryFailed, WebhookSubscriptionDisabled } from './model/events.ts'
export type { EventSchemas, WebhooksOptions } from './model/options.ts'
export type { Stats } from './model/stats.ts'
export type { Subscription, SubscriptionWithHealth, SubscriptionWithSecret } from './model/subscription.ts'
export type { EventOf, PayloadOf } from './typed-names.ts'
export type { Webhooks } from './webhooks.ts'

interface WebhooksType extends ServiceType {
  readonly service: Webhooks<this['names']>
}

/**
 * Satellite that sends signed webhooks to subscriptions of tenants and of the host.
 *
 * @throws `E_INVALID_REQUEST` for invalid options
 * @example
 *   const events = { 'order.paid': z.object({ orderId: z.string() }) }
 *   const tenancy = await createTenancy({ ..., satellites: [webhooks({ maxAttempts: 8, events })] })
 *   await tenancy.webhooks.dispatch('acme', 'order.paid', { orderId: '1001' })
 */
export const webhooks = <const Events extends EventSchemas = {}>(
  options: WebhooksOptions<Events> = {},
): NamedSatellite<'webhooks', WebhooksType, { readonly event: Events }, 'webhook.subscription_disabled'> => {
  const given = parsed(Options, options, 'webhooks')
  const { concurrency: _concurrency, claim: _claim, events: _events, ...shared } = given // limits of one process, and schemas
  const settings = withDefaults(given)
  return defineSatellite({
    name: 'webhooks',
    summary: 'Sends events of tenants to subscribed URLs: signed, retried, with a log of attempts and replay',
    sharedOptions: {
      ...optionTexts(shared),
      ...sharedNames('events', settings.events && [...settings.events.keys()]),
    },
    tables,
    tenantTables: ['webhook_counters'],
    erase: { systems: [deliveriesSystem(settings.retentionDays)] },
    events: [WebhookSubscriptionDisabled, WebhookDeliveryFailed],
    encryptedColumns: ['secret', 'previous_secret'].map((column) => ({
      table: 'webhook_subscriptions',
      key: 'id',
      column,
      binding: bindingOf,
    })),
    service: (kernel) => new Webhooks(kernel, settings),
    operations,
    searchProviders,
    commands,
    outbox: [
      outboxEntry(DISPATCH, DispatchRequest, (webhooks: Webhooks, entries) => webhooks.internal.posted(entries)),
    ],
    listeners: [
      ...(settings.bridge ? [onAny('within', (webhooks, type, event) => webhooks.internal.bridge(type, event))] : []),
      on(TenantPurged, 'within', (webhooks, { tenantId }) => webhooks.forget(tenantId)),
    ],
    jobs,
    schedule,
    work: (webhooks) => webhooks.work(),
    queues: (webhooks, tenantId) => webhooks.queues(tenantId),
    metrics: ({ series, inspection, streams }) => [
      ...series.series(),
      ...cachedGauges(
        () => inspection.unattended(),
        [
          {
            name: 'multitenancy_webhook_unattended_deliveries',
            help: 'Deliveries that are due for 10 seconds while no worker sends any',
            samples: (value) => [{ value }],
          },
        ],
        { maxShare: MEDIUM_SHARE },
      ),
      ...cachedGauges(
        () => streams.lagSeconds(),
        [
          {
            name: 'multitenancy_webhook_stream_lag_seconds',
            help: 'Age of the oldest record of a stream that a subscription of the host has not accepted; 0 if none lags',
            samples: (lags) => [...lags].map(([stream, value]) => ({ labels: { stream }, value })),
          },
        ],
        { maxShare: MEDIUM_SHARE },
      ),
    ],
    doctor: diagnoses,
    console: new URL('./console/index.tsx', import.meta.url),
    ...contributions,
    stop: (webhooks) => webhooks.stop(),
  })
}

export default webhooks
