/** Actions of tests in the role of a customer, or of an operator in the provider's dashboard. */
import type Stripe from 'stripe'
import { createPrice, createProduct, type PriceDraft, type ProductDraft } from './catalog.ts'
import { completeSession, type Payer } from './checkout.ts'
import { type CustomerDraft, createCustomer, deleteCustomer } from './customers.ts'
import { emit } from './events.ts'
import { collect, finalizeAndCollect } from './invoices/collection.ts'
import { type CardDraft, type CardKind, giveCard } from './invoices/payment-methods.ts'
import { createMeter, type MeterDraft } from './meters.ts'
import { DAY_SECONDS, livingCustomer, named, type State, snapshot } from './state.ts'
import { createSubscription, pause, resume } from './subscriptions/lifecycle.ts'
import { cancel } from './subscriptions/subscriptions.ts'
import { applyUpdate } from './subscriptions/update.ts'

export interface Controls {
  product(draft: ProductDraft): Stripe.Product
  price(draft: PriceDraft): Stripe.Price
  meter(draft: MeterDraft): Stripe.Billing.Meter
  /** With a good card, unless `card` is null. */
  customer(draft?: CustomerDraft & { readonly card?: CardDraft | null }): Stripe.Customer
  setPaymentMethod(customerId: string, kind: CardKind, card?: CardDraft): Stripe.PaymentMethod
  subscribe(customerId: string, priceId: string, how?: Subscribing): Stripe.Subscription
  completeCheckout(sessionId: string, payer?: Payer): Stripe.Checkout.Session
  changePrice(subscriptionId: string, priceId: string, proration?: Proration): Stripe.Subscription
  pause(subscriptionId: string): Stripe.Subscription
  resume(subscriptionId: string): Stripe.Subscription
  /** Ends immediately, or with the period. */
  cancel(subscriptionId: string, how?: { readonly atPeriodEnd?: boolean }): Stripe.Subscription
  /** Finalizes a draft first. Succeeds regardless of the card. */
  payInvoice(invoiceId: string): Stripe.Invoice
  /** Simulates a scheduled attempt that is declined, regardless of the card. */
  failInvoice(invoiceId: string): Stripe.Invoice
  deleteCustomer(customerId: string): void
  /** Emits an event of any type about any object. */
  emit(type: Stripe.Event.Type, object: object): Stripe.Event
  /** Removes an object of any kind, or an event, from the provider. */
  forget(id: string): void
}

export interface Subscribing {
  readonly trialDays?: number
  readonly quantity?: number
  readonly metadata?: Record<string, string>
}

export type Proration = 'create_prorations' | 'always_invoice' | 'none'

export function createControls(state: State): Controls {
  const subscriptionOf = (id: string) => named(state.subscriptions, 'subscription', id)
  const changed = (id: string, change: (subscription: Stripe.Subscription) => void) => {
    const subscription = subscriptionOf(id)
    change(subscription)
    return snapshot(subscription)
  }
  const attempted = (id: string, outcome: 'paid' | 'declined') => {
    const invoice = named(state.invoices, 'invoice', id)
    if (invoice.status === 'draft') finalizeAndCollect(state, invoice, { outcome })
    else if (invoice.status === 'open') collect(state, invoice, { outcome, isManual: outcome === 'paid' })
    else throw new Error(`the invoice ${id} is ${invoice.status}, not draft or open`)
    return snapshot(invoice)
  }
  return {
    product: (draft) => snapshot(createProduct(state, draft)),
    price: (draft) => snapshot(createPrice(state, draft)),
    meter: (draft) => snapshot(createMeter(state, draft)),
    customer({ card, ...draft } = {}) {
      const customer = createCustomer(state, draft)
      if (card !== null) giveCard(state, customer, 'good', card)
      return snapshot(customer)
    },
    setPaymentMethod: (customerId, kind, card) =>
      snapshot(giveCard(state, livingCustomer(state, customerId), kind, card)),
    subscribe(customerId, priceId, { trialDays, quantity = 1, metadata = {} } = {}) {
      const subscription = createSubscription(state, {
        customer: livingCustomer(state, customerId).id,
        items: [{ price: named(state.prices, 'price', priceId), quantity }],
        trialEnd: trialDays ? state.now + trialDays * DAY_SECONDS : null,
        missingPaymentMethod: 'create_invoice',
        metadata,
        description: null,
        cancelAtPeriodEnd: false,
        defaultPaymentMethod: null,
      })
      return snapshot(subscription)
    },
    completeCheckout: (sessionId, payer = {}) =>
      snapshot(completeSession(state, named(state.sessions, 'checkout.session', sessionId), payer)),
    changePrice: (id, price, proration = 'create_prorations') =>
      changed(id, (subscription) => {
        const item = subscription.items.data[0]?.id ?? ''
        applyUpdate(state, subscription, { items: [{ id: item, price }], proration_behavior: proration })
      }),
    pause: (id) => changed(id, (subscription) => pause(state, subscription)),
    resume: (id) => changed(id, (subscription) => resume(state, subscription, 'resume_on_payment_attempt')),
    cancel: (id, { atPeriodEnd = false } = {}) =>
      changed(id, (subscription) => {
        if (atPeriodEnd) applyUpdate(state, subscription, { cancel_at_period_end: 'true' })
        else cancel(state, subscription, 'cancellation_requested')
      }),
    payInvoice: (id) => attempted(id, 'paid'),
    failInvoice: (id) => attempted(id, 'declined'),
    deleteCustomer(id) {
      deleteCustomer(state, livingCustomer(state, id))
    },
    emit: (type, object) => snapshot(emit(state, type, object)),
    forget(id) {
      state.forgotten.add(id)
      state.deletedCustomers.delete(id)
      for (const collection of [
        state.customers,
        state.products,
        state.prices,
        state.paymentMethods,
        state.subscriptions,
        state.invoices,
        state.charges,
        state.sessions,
        state.meters,
      ]) {
        collection.delete(id)
      }
    },
  }
}
