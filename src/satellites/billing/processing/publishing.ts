/** Publishes the typed events of processed provider events. */

import type { BillingDependencies } from '../model/dependencies.ts'
import { planOfItems } from '../model/entitlement.ts'
import {
  BillingMisconfigured,
  PaymentFailed,
  PaymentSucceeded,
  SubscriptionActivated,
  SubscriptionCanceled,
  SubscriptionPaused,
  SubscriptionResumed,
  SubscriptionUpdated,
  TrialEnding,
} from '../model/events.ts'
import type { ProviderInvoice, ProviderSubscription } from '../model/provider.ts'
import { hasEnded } from '../subscriptions/subscriptions.ts'
import type { DerivedEvent } from './derived-events.ts'

const PLAIN = {
  activated: SubscriptionActivated,
  paused: SubscriptionPaused,
  resumed: SubscriptionResumed,
  canceled: SubscriptionCanceled,
} as const

export async function publishDerived(
  { kernel, plans }: BillingDependencies,
  tenantId: string,
  subscription: ProviderSubscription,
  derived: DerivedEvent,
  at: Date,
): Promise<void> {
  const { events } = kernel
  const payload = {
    tenantId,
    subscriptionId: subscription.id,
    status: subscription.status,
    plan: planOfItems(subscription.items, plans) ?? plans.defaultPlan,
    at: at.toISOString(),
  }
  if (derived.what === 'updated') {
    await events.publish(SubscriptionUpdated, { ...payload, changed: [...derived.changed] })
  } else if (derived.what === 'trialEnding') {
    await events.publish(TrialEnding, { ...payload, daysLeft: derived.daysLeft })
  } else {
    await events.publish(PLAIN[derived.what], payload)
  }
}

const ofInvoice = (tenantId: string, { id, subscriptionId, currency }: ProviderInvoice, at: Date) => ({
  tenantId,
  subscriptionId,
  invoiceId: id,
  currency,
  at: at.toISOString(),
})

export async function publishPaid(
  { kernel }: BillingDependencies,
  tenantId: string,
  invoice: ProviderInvoice,
  at: Date,
) {
  await kernel.events.publish(PaymentSucceeded, { ...ofInvoice(tenantId, invoice, at), amount: invoice.amountPaid })
}

export async function publishFailed(
  { kernel }: BillingDependencies,
  tenantId: string,
  invoice: ProviderInvoice,
  { final, at }: { final: boolean; at: Date },
) {
  await kernel.events.publish(PaymentFailed, {
    ...ofInvoice(tenantId, invoice, at),
    amount: invoice.amountDue,
    attempt: invoice.attempt,
    final,
    nextAttemptAt: invoice.nextAttemptAt?.toISOString() ?? null,
  })
}

/** Publishes `plan_unmapped` if no price of a running subscription is mapped, so that the default plan applies. */
export async function publishUnmapped(
  { kernel, plans }: BillingDependencies,
  tenantId: string,
  subscription: ProviderSubscription,
): Promise<void> {
  const { id: subscriptionId, customerId, items } = subscription
  if (hasEnded(subscription) || planOfItems(items, plans) !== undefined) return
  await kernel.events.publish(BillingMisconfigured, { tenantId, reason: 'plan_unmapped', subscriptionId, customerId })
}
