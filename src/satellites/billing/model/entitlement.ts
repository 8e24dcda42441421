/** Computes the plan of a tenant from its subscriptions. Of several effective subscriptions, the newest decides. */
import type { ProviderItem, SubscriptionStatus } from './provider.ts'

export interface Entitling {
  readonly id: string
  readonly status: SubscriptionStatus
  readonly items: readonly Pick<ProviderItem, 'priceId' | 'productId'>[]
  readonly createdAt: Date
  /** Whether a dunning case is open: retrying, or in its grace period. */
  readonly isInDunning: boolean
  /** Whether the grace period has ended and dunning has downgraded the tenant. */
  readonly isDowngraded: boolean
}

export interface PlanMap {
  readonly products: Readonly<Record<string, string>>
  readonly defaultPlan: string
}

/** Plan of the first mapped item; undefined if no item is mapped. */
export function planOfItems(items: Entitling['items'], { products }: PlanMap): string | undefined {
  const mapped = items
    .flatMap(({ priceId, productId }) => (productId === null ? [priceId] : [priceId, productId]))
    .find((id) => Object.hasOwn(products, id))
  return mapped === undefined ? undefined : products[mapped]
}

export function entitledPlan(subscriptions: readonly Entitling[], plans: PlanMap): string {
  const counting = subscriptions
    .filter(counts)
    .toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime() || (a.id < b.id ? 1 : -1))
  for (const { items } of counting) {
    const plan = planOfItems(items, plans)
    if (plan !== undefined) return plan
  }
  return plans.defaultPlan
}

/** An unpaid subscription is effective during the retries and the grace period. */
function counts({ status, isInDunning, isDowngraded }: Entitling): boolean {
  if (isDowngraded) return false
  return status === 'active' || status === 'trialing' || status === 'past_due' || (status === 'unpaid' && isInDunning)
}
