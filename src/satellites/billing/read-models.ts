/** Read models: billing of one tenant, and billing as a whole. */
import { type PlanMap, planOfItems } from './model/entitlement.ts'
import type { DunningRow, SubscriptionRow } from './model/tables.ts'
import type { BillingServices } from './processing/services.ts'
import type { BillingOfTenant } from './resource.ts'
import { hasEnded } from './subscriptions/subscriptions.ts'
import type { UsageWindows } from './usage/windows.ts'

export class Views {
  readonly #services: BillingServices
  readonly #windows: UsageWindows

  constructor(services: BillingServices, windows: UsageWindows) {
    this.#services = services
    this.#windows = windows
  }

  async of(tenantId: string): Promise<BillingOfTenant> {
    const { dependencies, customers, subscriptions, dunning } = this.#services
    const { tenants } = dependencies
    const all = await subscriptions.ofTenant(tenantId)
    const [owed] = await dunning.open(tenantId)
    return {
      tenantId,
      customerId: (await customers.of(tenantId)) ?? null,
      plan: (await tenants.plans.resolve(await tenants.get(tenantId))).plan,
      subscription: toSubscription(all.find((one) => !hasEnded(one)) ?? all[0], dependencies.plans),
      dunning: owed ? toDunning(owed) : null,
      unreportedUsage: (await this.#windows.unreported(tenantId)).map((one) => ({
        ...one,
        since: one.since.toISOString(),
      })),
    }
  }
}

export function toSubscription(row: SubscriptionRow | undefined, plans: PlanMap): BillingOfTenant['subscription'] {
  if (!row) return null
  return {
    id: row.id,
    status: row.status,
    plan: planOfItems(row.items, plans) ?? null,
    items: row.items.map(({ priceId, productId, quantity }) => ({ priceId, productId, quantity })),
    isCollectionPaused: row.isCollectionPaused,
    periodStart: textOf(row.periodStart),
    periodEnd: textOf(row.periodEnd),
    trialEnd: textOf(row.trialEnd),
    cancelAtPeriodEnd: row.cancelAtPeriodEnd,
    cancelAt: textOf(row.cancelAt),
    endedAt: textOf(row.endedAt),
  }
}

const textOf = (date: Date | null): string | null => date?.toISOString() ?? null

export function toDunning({
  subscriptionId,
  state,
  invoices,
  graceUntil,
  openedAt,
}: DunningRow): BillingOfTenant['dunning'] {
  if (state === 'recovered' || state === 'ended') return null
  const attempt = Math.max(0, ...Object.values(invoices).map((invoice) => invoice.attempt))
  return { subscriptionId, state, attempt, graceUntil: textOf(graceUntil), since: openedAt.toISOString() }
}
