/** Which plan a tenant has paid for. */
import { describe, expect, test } from 'vitest'
import { type Entitling, entitledPlan, type PlanMap, planOfItems } from './entitlement.ts'
import { SUBSCRIPTION_STATUSES } from './provider.ts'

const PLANS: PlanMap = {
  products: { price_pro: 'pro', prod_pro: 'pro-of-the-product', prod_scale: 'scale' },
  defaultPlan: 'free',
}

const item = (priceId: string, productId: string | null = null) => ({ priceId, productId })

describe('the plan of items', () => {
  test.each<[string, Entitling['items'], string | undefined]>([
    ['no items', [], undefined],
    ['a price', [item('price_pro')], 'pro'],
    ['a product', [item('price_other', 'prod_scale')], 'scale'],
    ['a price before its product', [item('price_pro', 'prod_pro')], 'pro'],
    ['the first that is mapped', [item('price_other'), item('price_other', 'prod_scale'), item('price_pro')], 'scale'],
    ['none that is mapped', [item('price_other', 'prod_other')], undefined],
    ['a price without a product', [item('price_other', null)], undefined],
  ])('%s', (_, items, expected) => {
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

describe('the status of the only subscription', () => {
  const COUNTING = { always: ['active', 'trialing', 'past_due'], inDunning: ['unpaid'] }
  test.each(SUBSCRIPTION_STATUSES)('%s', (status) => {
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
  ['one of no mapping', [subscription({ items: [item('price_other')] })], 'free'],
  ['two, and the later decides', [subscription(), subscription({ ...later, ...scale })], 'scale'],
  ['two, in another order', [subscription({ ...later, ...scale }), subscription()], 'scale'],
  ['the later has ended', [subscription(), subscription({ ...later, ...scale, status: 'canceled' })], 'pro'],
  ['the later is paused', [subscription(), subscription({ ...later, ...scale, status: 'paused' })], 'pro'],
  ['the later is of no mapping', [subscription(), subscription({ ...later, items: [item('price_other')] })], 'pro'],
  ['the later is downgraded', [subscription(), subscription({ ...later, ...scale, isDowngraded: true })], 'pro'],
  [
    'both are downgraded',
    [subscription({ isDowngraded: true }), subscription({ ...later, ...scale, isDowngraded: true })],
    'free',
  ],
  ['two of one second, by their ids', [subscription(), subscription({ ...scale, id: 'sub_2' })], 'scale'],
  ['two of one second, in another order', [subscription({ ...scale, id: 'sub_2' }), subscription()], 'scale'],
])('of several: %s', (_, subscriptions, expected) => {
  expect(entitledPlan(subscriptions, PLANS)).toBe(expected)
})

test('names of members of objects are no plans', () => {
  expect(planOfItems([item('toString', 'constructor')], PLANS)).toBeUndefined()
})
