import { z } from 'zod'
import { EXPORT_TYPES, exported, wantedFormat } from '../../kernel/api/export-format.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { PlanResolvedByHost, TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { PaymentRejected, PriceNotMapped, SubscriptionNotFound } from './model/errors.ts'
import { SUBSCRIPTION_STATUSES } from './model/provider.ts'
import { operation } from './part.ts'
import {
  BillingOfTenant,
  BillingSummary,
  CancelRequest,
  CheckoutRequest,
  CheckoutSession,
  DUNNING_STATES,
  PortalRequest,
  PortalSession,
} from './resource.ts'

const params = z.object({ id: TenantId })
const tenant = { id: 'id of the tenant' }
const rejections = [TenantNotFound, PaymentRejected, DependencyUnavailable]

export const operations = [
  operation({
    name: 'billing.get',
    method: 'GET',
    path: '/tenants/{id}/billing',
    summary: "Read a tenant's subscription, plan, dunning state, and unreported usage",
    description: 'State at the last event of the provider, without a request to it.',
    params,
    reply: BillingOfTenant,
    errors: [TenantNotFound],
    command: {
      name: 'billing:show',
      summary: "Show a tenant's subscription, plan, dunning state, and unreported usage",
      arguments: tenant,
    },
    handle: (billing, { params }) => billing.of(params.id),
  }),
  operation({
    name: 'billing.list',
    method: 'GET',
    path: '/billing',
    summary: 'List or export the billing of all tenants that have or had a subscription, by tenant',
    description:
      'State at the last event of the provider. With `Accept: application/x-ndjson` or `text/csv` the response is an export: a stream ' +
      'of all items that match the filters, without paging; `limit` and `cursor` have no effect.',
    query: z.strictObject({
      dunning: z
        .enum(['open', ...DUNNING_STATES])
        .optional()
        .meta({ description: 'State of the dunning case; `open`: any' }),
      status: z.enum(SUBSCRIPTION_STATUSES).optional().meta({ description: 'Status of the subscription' }),
      plan: z
        .string()
        .min(1)
        .max(128)
        .optional()
        .meta({ description: 'Only of tenants with this plan; the default plan includes tenants without a plan' }),
      ...Page.shape,
    }),
    reply: pageOf(BillingSummary),
    streams: EXPORT_TYPES,
    errors: [PlanResolvedByHost],
    command: {
      name: 'billing:list',
      rows: ({ data }) =>
        data.map(({ tenantId, plan, subscription, dunning }) => {
          const { status = '', periodEnd = '' } = subscription ?? {}
          return { tenantId, plan, status, periodEnd, dunning: dunning?.state ?? '', since: dunning?.since ?? '' }
        }),
    },
    handle: async ({ listing }, { query, headers }) => {
      const format = wantedFormat(headers)
      return format ? exported(format, 'billing', await listing.export(format, query)) : listing.list(query)
    },
  }),
  operation({
    name: 'billing.checkout',
    changesOutside: true,
    method: 'POST',
    path: '/tenants/{id}/billing/checkout',
    summary: 'Begin a checkout at the provider',
    description: 'The tenant gets the plan when the provider reports a payment or a trial.',
    params,
    body: CheckoutRequest,
    reply: CheckoutSession,
    status: 201,
    errors: [...rejections, TenantState, PriceNotMapped],
    command: {
      name: 'billing:checkout',
      summary: 'Begin a checkout at the provider, and print its URL',
      arguments: tenant,
      options: {
        priceId: { flags: '--price <id>' },
        successUrl: { flags: '--success-url <url>' },
        cancelUrl: { flags: '--cancel-url <url>' },
        trialDays: { flags: '--trial-days <count>', summary: 'trial, in days' },
        allowPromotionCodes: 'accept promotion codes',
      },
    },
    handle: (billing, { params, body }) => billing.checkout(params.id, body),
  }),
  operation({
    name: 'billing.portal',
    changesOutside: true,
    method: 'POST',
    path: '/tenants/{id}/billing/portal',
    summary: "Open the provider's pages for invoices and payment methods",
    params,
    body: PortalRequest,
    reply: PortalSession,
    status: 201,
    errors: [...rejections, TenantState],
    command: {
      name: 'billing:portal',
      summary: "Print the URL of the provider's pages for invoices and payment methods",
      arguments: tenant,
      options: { returnUrl: { flags: '--return-url <url>' } },
    },
    handle: (billing, { params, body }) => billing.portal(params.id, body),
  }),
  operation({
    name: 'billing.cancel',
    changesOutside: true,
    method: 'POST',
    path: '/tenants/{id}/billing/cancel',
    summary: "End a tenant's subscription, by default at the end of the paid period",
    params,
    body: CancelRequest,
    bodyOptional: true,
    reply: BillingOfTenant,
    errors: [...rejections, SubscriptionNotFound],
    command: {
      name: 'billing:cancel',
      arguments: tenant,
      options: { atPeriodEnd: { flags: '--no-at-period-end', summary: 'end it immediately' } },
      question: ({ params: { id }, body: { atPeriodEnd } }) =>
        `End the subscription of ${id}${atPeriodEnd === false ? ' immediately' : ' with the paid period'}?`,
    },
    handle: (billing, { params, body }) => billing.cancel(params.id, body),
  }),
]
