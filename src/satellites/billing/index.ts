import { parsed } from '../../kernel/base/validate.ts'
import { defineSatellite, optionTexts } from '../../tenancy/satellite.ts'
import { BackofficeRestored } from '../../tenants/backoffice-recovery.ts'
import {
  TenantActivated,
  TenantDeleted,
  TenantPurged,
  TenantRestored,
  TenantSuspensionRepeated,
} from '../../tenants/tenant/events.ts'
import { Billing } from './billing.ts'
import { commands } from './commands.ts'
import { contributions } from './contributions.ts'
import { diagnoses } from './doctor.ts'
import { jobs, schedule } from './jobs.ts'
import { AddressNotAllowed, PaymentRejected, PriceNotMapped, SubscriptionNotFound } from './model/errors.ts'
import { events } from './model/events.ts'
import { type BillingOptions, DEFAULT_PATH, Options, verifySettings } from './model/settings.ts'
import { tables } from './model/tables.ts'
import { operations } from './operations.ts'
import { on } from './part.ts'
import { providerSystem } from './processing/erasure.ts'
import { searchProviders } from './search.ts'
import { StripePayments } from './stripe/provider.ts'

export type { Billing } from './billing.ts'
export * from './model/errors.ts'
export * from './model/events.ts'
export type { BillingErrorCode, SubscriptionStatus } from './model/provider.ts'
export { type BillingOptions, DEFAULT_PATH } from './model/settings.ts'
export type {
  BillingOfTenant,
  CancelRequest,
  ChangePlanRequest,
  CheckoutRequest,
  CheckoutSession,
  PortalRequest,
} from './resource.ts'

import { postedReports } from './usage/posted-reports.ts'

/**
 * Defines the billing satellite. Without options it can only be described (reference, OpenAPI), not started.
 *
 * @example
 * const tenancy = await createTenancy({
 *   satellites: [billing({ stripe: { apiKey, webhookSecret }, products: { price_1Abc: 'pro' } })],
 * })
 */
export const billing = (options?: BillingOptions) => {
  const settings = options && parsed(Options, options, 'billing')
  const { stripe: _secrets, ...shared } = settings ?? {}
  return defineSatellite({
    name: 'billing',
    summary: 'Stripe subscriptions as plans of tenants: checkout, dunning, metered usage',
    sharedOptions: optionTexts(shared),
    tables,
    erase: { systems: [providerSystem(settings?.webhook.retentionDays)] },
    tenantTables: [
      'billing_dunning',
      'billing_usage',
      'billing_usage_watermarks',
      'billing_subscriptions',
      'billing_customers',
    ],
    events,
    service: (kernel, tenants) => {
      if (!settings) throw new Error('billing is not configured. Set stripe.apiKey, stripe.webhookSecret and products')
      return new Billing(kernel, tenants, settings, new StripePayments(settings.stripe, kernel.log), () =>
        verifySettings(settings, { env: process.env, isPlan: (name) => tenants.plans.isDefined(name) }),
      )
    },
    operations,
    console: new URL('./console/index.tsx', import.meta.url),
    searchProviders,
    receivers: [
      {
        path: settings?.webhook.path ?? DEFAULT_PATH,
        receive: ({ receiver }, request) => receiver.receive(request),
      },
    ],
    errors: [AddressNotAllowed, PaymentRejected, PriceNotMapped, SubscriptionNotFound],
    commands,
    outbox: [postedReports],
    listeners: [
      on(TenantDeleted, 'within', ({ tenantDeletion }, { tenantId }) => tenantDeletion.begin(tenantId)),
      on(TenantRestored, 'within', async ({ tenantDeletion }, { tenantId, from }) => {
        if (from === 'deletion') await tenantDeletion.restore(tenantId)
      }),
      on(TenantSuspensionRepeated, 'within', ({ dunning }, { tenantId }) => dunning.suspensions.yield(tenantId)),
      on(TenantActivated, 'within', ({ dunning }, { tenantId }) => dunning.suspensions.yield(tenantId)),
      on(BackofficeRestored, 'within', (billing) => billing.restored()),
      on(TenantPurged, 'within', ({ tenantDeletion }, { tenantId }) => tenantDeletion.forget(tenantId)),
    ],
    jobs,
    schedule,
    work: (billing) => billing.work(),
    checks: { billing: (billing) => billing.check() },
    doctor: diagnoses,
    ...contributions,
    metrics: ({ counts }) => [counts.series()],
    stop: (billing) => billing.stop(),
  })
}

export default billing
