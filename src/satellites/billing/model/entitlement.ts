/**
 * Which plan a tenant has paid for, as a pure function of its subscriptions. Of several that count, the one that was made last decides.
 */
import type { ProviderItem, SubscriptionStatus } from './provider.ts'

export interface Entitling {
  readonly id: string
  readonly status: SubscriptionStatus
  readonly items: readonly Pick<ProviderItem, 'priceId' | 'productId'>[]
  readonly createdAt: Date
  /** Whether its payments have failed, and nothing has come of it yet. */
  readonly isInDunning: boolean
  /** Whether its grace is over, and its plan is taken away. */
  readonly isDowngraded: boolean
}

export interface PlanMap {
  readonly products: Readonly<Record<string, string>>
  readonly defaultPlan: string
}

/** Of its first item that is mapped; undefined when none is. */
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

/** What is unpaid counts while it is tried, and in its grace. */
function counts({ status, isInDunning, isDowngraded }: Entitling): boolean {
  if (isDowngraded) return false
  return status === 'active' || status === 'trialing' || status === 'past_due' || (status === 'unpaid' && isInDunning)
}
