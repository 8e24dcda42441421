/** A provider with a customer and two prices, and the events emitted since. */
import Stripe from 'stripe'
import { type Provider, startProvider } from './provider.ts'

export interface Lifecycle {
  readonly provider: Provider
  readonly stripe: Stripe
  readonly customer: string
  /** 10.00 per month. */
  readonly basic: string
  /** 40.00 per month. */
  readonly pro: string
  /** Events since the last call, e.g. `invoice.paid` or `customer.subscription.updated past_due`. */
  published(): string[]
  /** Latest invoice of a subscription. */
  latest(subscriptionId: string): Promise<Stripe.Invoice>
}

export async function startLifecycle(): Promise<Lifecycle> {
  const provider = await startProvider({ start: new Date('2026-01-31T10:00:00Z') })
  const stripe = new Stripe(provider.apiKey, { ...provider.clientOptions, maxNetworkRetries: 0 })
  const monthly = (name: string, amount: number) =>
    provider.price({ product: provider.product({ name }).id, amount, interval: 'month' }).id
  const customer = provider.customer({ email: 'ada@example.com' }).id
  const [basic, pro] = [monthly('Basic', 1000), monthly('Pro', 4000)]
  let read = provider.events.length
  return {
    provider,
    stripe,
    customer,
    basic,
    pro,
    published() {
      const events = provider.events.slice(read)
      read = provider.events.length
      return events.map(({ type, data }) =>
        type.startsWith('customer.subscription') ? `${type} ${(data.object as Stripe.Subscription).status}` : type,
      )
    },
    latest: async (id) =>
      (await stripe.subscriptions.retrieve(id, { expand: ['latest_invoice'] })).latest_invoice as Stripe.Invoice,
  }
}

export const PAID = ['invoice.finalized', 'charge.succeeded', 'invoice.paid', 'invoice.payment_succeeded']
export const FAILED = ['charge.failed', 'invoice.updated', 'invoice.payment_failed']
