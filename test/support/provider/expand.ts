/** `expand[]`: replaces ids in a response by their objects, and adds lists that are included only on request. */
import type Stripe from 'stripe'
import { lineItemsOf } from './checkout.ts'
import { customerResponse } from './customers.ts'
import { invalid } from './errors.ts'
import { whollyListed } from './lists.ts'
import { type State, snapshot } from './state.ts'
import { subscriptionsOf } from './subscriptions/subscriptions.ts'

const MAX_DEPTH = 4

type Json = Record<string, unknown>

/** @param response a snapshot; changed in place */
export function expand(state: State, response: object, paths: readonly string[]): void {
  for (const path of paths) {
    const names = path.split('.')
    if (names.length > MAX_DEPTH + (names[0] === 'data' ? 1 : 0)) {
      throw invalid(`You cannot expand more than ${MAX_DEPTH} levels of a property. Property: ${path}`, 'expand')
    }
    walk(state, response as Json, names, path)
  }
}

function walk(state: State, object: Json, [name, ...rest]: readonly string[], path: string): void {
  if (name === undefined) return
  if (object[name] === undefined) object[name] = included(state, object, name)
  const value = object[name]
  if (value === undefined) throw invalid(`This property cannot be expanded (${path}).`, 'expand')
  if (value === null) return
  if (typeof value === 'string') object[name] = found(state, value, path)
  const next = object[name]
  const inside = Array.isArray(next) ? next : [next]
  for (const one of inside) walk(state, one as Json, rest, path)
}

function found(state: State, id: string, path: string): object {
  if (state.customers.has(id)) return snapshot(customerResponse(state, id))
  const collections: readonly ReadonlyMap<string, object>[] = [
    state.products,
    state.prices,
    state.paymentMethods,
    state.subscriptions,
    state.invoices,
    state.charges,
    state.sessions,
    state.meters,
  ]
  const object = collections.map((collection) => collection.get(id)).find((one) => one !== undefined)
  if (!object) throw invalid(`This property cannot be expanded (${path}).`, 'expand')
  return snapshot(object)
}

/** Lists that are included only on request. */
function included(state: State, object: Json, name: string): object | undefined {
  const id = String(object.id)
  if (object.object === 'customer' && name === 'subscriptions') {
    const living = subscriptionsOf(state, id).filter(({ status }) => status !== 'canceled')
    return snapshot(whollyListed<Stripe.Subscription>(living.reverse(), `/v1/customers/${id}/subscriptions`))
  }
  if (object.object === 'checkout.session' && name === 'line_items') {
    return snapshot(whollyListed(lineItemsOf(state, id), `/v1/checkout/sessions/${id}/line_items`))
  }
  return undefined
}
