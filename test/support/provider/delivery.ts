/** Delivers events to a receiver, signed like the provider's, optionally in another order. */
import Stripe from 'stripe'
import { seededRandom } from '../../../src/testing/base/seeded-random.ts'

export interface SignedEvent {
  readonly body: string
  readonly headers: { readonly 'content-type': string; readonly 'stripe-signature': string }
}

/** @param at time of the signature, in seconds */
export function signed(event: Stripe.Event, secret: string, at: number): SignedEvent {
  const body = JSON.stringify(event, null, 2)
  const header = Stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: at })
  return { body, headers: { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': header } }
}

/** Delivers sequentially. @returns the statuses */
export async function deliver(url: string, events: readonly SignedEvent[]): Promise<number[]> {
  const statuses: number[] = []
  for (const { body, headers } of events) {
    const response = await fetch(url, { method: 'POST', body, headers })
    await response.arrayBuffer()
    statuses.push(response.status)
  }
  return statuses
}

/** Returns another order; equal seeds return equal orders. */
export function shuffled<T>(events: readonly T[], seed: number): T[] {
  const random = seededRandom(seed)
  const left = [...events]
  return events.flatMap(() => left.splice(random.below(left.length), 1))
}
