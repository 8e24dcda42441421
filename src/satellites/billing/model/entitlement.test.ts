/** Tests of the plan that results from subscriptions. */
import { describe, expect, test } from 'vitest'
import { type Entitling, entitledPlan, type PlanMap, planOfItems } from './entitlement.ts'
import { SUBSCRIPTION_STATUSES } from './provider.ts'

const PLANS: PlanMap = {
  products: { price_pro: 'pro', prod_pro: 'pro-of-the-product', prod_scale: 'scale' },
  defaultPlan: 'free',
}

const item = (priceId: string, productId: string | null = null) => ({ priceId, productId })

describe('planOfItems', () => {
  test.each<[string, Entitling['items'], string | undefined]>([
    ['no items', [], undefined],
    ['a price', [item('price_pro')], 'pro'],
    ['a product', [item('price_other', 'prod_scale')], 'scale'],
    ['a mapped price and a mapped product: the price decides', [item('price_pro', 'prod_pro')], 'pro'],
    [
      'several items: the first mapped item decides',
      [item('price_other'), item('price_other', 'prod_scale'), item('price_pro')],
      'scale',
    ],
    ['no mapped item', [item('price_other', 'prod_other')], undefined],
    ['an unmapped price without a product', [item('price_other', null)], undefined],
  ])('returns the plan for %s', (_, items, expected) => {
    expect(planOfItems(items, PLANS)).toBe(expected)
  })
})

const subscription = (members: Partial<Entitling> = {}): Entitling => ({
  id: 'sub_1',
  status: 'active',
  items: [item('price_pro')],
  createdAt: new Date(1_000_000),
  isInDunning: false,
  isDowngraded: false,
  ...members,
})
const scale = { items: [item('price_x', 'prod_scale')] }
const later = { id: 'sub_2', createdAt: new Date(2_000_000) }

describe('entitledPlan for one subscription', () => {
  const COUNTING = { always: ['active', 'trialing', 'past_due'], inDunning: ['unpaid'] }
  test.each(SUBSCRIPTION_STATUSES)('a subscription with the status %s', (status) => {
    const isCounting = COUNTING.always.includes(status)
    expect(entitledPlan([subscription({ status })], PLANS)).toBe(isCounting ? 'pro' : 'free')
    expect(entitledPlan([subscription({ status, isInDunning: true })], PLANS)).toBe(
      isCounting || COUNTING.inDunning.includes(status) ? 'pro' : 'free',
    )
    expect(entitledPlan([subscription({ status, isDowngraded: true })], PLANS)).toBe('free')
    expect(entitledPlan([subscription({ status, isDowngraded: true, isInDunning: true })], PLANS)).toBe('free')
  })
})

test.each<[string, readonly Entitling[], string]>([
  ['none', [], 'free'],
  ['one subscription with an unmapped price', [subscription({ items: [item('price_other')] })], 'free'],
  ['two subscriptions: the newer decides', [subscription(), subscription({ ...later, ...scale })], 'scale'],
  [
    'two subscriptions, newest first: the newer decides',
    [subscription({ ...later, ...scale }), subscription()],
    'scale',
  ],
  ['newer subscription ended', [subscription(), subscription({ ...later, ...scale, status: 'canceled' })], 'pro'],
  ['newer subscription paused', [subscription(), subscription({ ...later, ...scale, status: 'paused' })], 'pro'],
  [
    'newer subscription with an unmapped price',
    [subscription(), subscription({ ...later, items: [item('price_other')] })],
    'pro',
  ],
  ['newer subscription downgraded', [subscription(), subscription({ ...later, ...scale, isDowngraded: true })], 'pro'],
  [
    'both subscriptions downgraded',
    [subscription({ isDowngraded: true }), subscription({ ...later, ...scale, isDowngraded: true })],
    'free',
  ],
  [
    'two subscriptions created in the same second: the greater id decides',
    [subscription(), subscription({ ...scale, id: 'sub_2' })],
    'scale',
  ],
  [
    'two subscriptions created in the same second, greater id first',
    [subscription({ ...scale, id: 'sub_2' }), subscription()],
    'scale',
  ],
])('entitledPlan: %s', (_, subscriptions, expected) => {
  expect(entitledPlan(subscriptions, PLANS)).toBe(expected)
})

test('planOfItems ignores names of built-in object members', () => {
  expect(planOfItems([item('toString', 'constructor')], PLANS)).toBeUndefined()
})
