/** Cards, good or declined, and the charges that they result in. */
import type Stripe from 'stripe'
import { updateCustomer } from '../customers.ts'
import { emit } from '../events.ts'
import { idOf, type State } from '../state.ts'

export type CardKind = 'good' | 'declines'

export interface CardDraft {
  readonly brand?: string
  readonly last4?: string
  /** Billing details of the card; default: those of the customer. */
  readonly billingDetails?: Partial<Stripe.PaymentMethod.BillingDetails>
}

/** Attaches a card as the customer's default. */
export function giveCard(state: State, customer: Stripe.Customer, kind: CardKind, draft: CardDraft = {}) {
  const method: Stripe.PaymentMethod = {
    id: state.id('pm'),
    object: 'payment_method',
    billing_details: {
      address: customer.address ?? null,
      email: customer.email,
      name: customer.name ?? null,
      phone: customer.phone ?? null,
      tax_id: null,
      ...draft.billingDetails,
    },
    card: cardOf(draft, kind),
    created: state.now,
    customer: customer.id,
    customer_account: null,
    livemode: state.livemode,
    metadata: {},
    type: 'card',
  }
  if (kind === 'declines') state.declining.add(method.id)
  state.paymentMethods.set(method.id, method)
  emit(state, 'payment_method.attached', method)
  updateCustomer(state, customer, ({ invoice_settings }) => {
    invoice_settings.default_payment_method = method.id
  })
  return method
}

function cardOf(draft: CardDraft, kind: CardKind): Stripe.PaymentMethod.Card {
  return {
    brand: draft.brand ?? 'visa',
    checks: null,
    country: 'US',
    display_brand: draft.brand ?? 'visa',
    exp_month: 12,
    exp_year: 2040,
    fingerprint: null,
    funding: 'credit',
    generated_from: null,
    last4: draft.last4 ?? (kind === 'good' ? '4242' : '0341'),
    networks: null,
    regulated_status: 'unregulated',
    three_d_secure_usage: null,
    wallet: null,
  }
}

/** Payment method of an invoice: the subscription's card, or the customer's default. */
export function methodFor(
  state: State,
  customerId: string,
  subscription?: Stripe.Subscription,
): Stripe.PaymentMethod | undefined {
  const customer = state.customers.get(customerId)
  const reference = subscription?.default_payment_method ?? customer?.invoice_settings.default_payment_method
  return reference ? state.paymentMethods.get(idOf(reference)) : undefined
}

export const isDeclined = (state: State, method: Stripe.PaymentMethod): boolean => state.declining.has(method.id)

export function charge(
  state: State,
  invoice: Stripe.Invoice,
  method: Stripe.PaymentMethod | undefined,
  isPaid: boolean,
): Stripe.Charge {
  const made = {
    id: state.id('ch'),
    object: 'charge',
    amount: invoice.amount_remaining,
    amount_captured: isPaid ? invoice.amount_remaining : 0,
    amount_refunded: 0,
    billing_details: method?.billing_details ?? { address: null, email: null, name: null, phone: null, tax_id: null },
    captured: isPaid,
    created: state.now,
    currency: invoice.currency,
    customer: invoice.customer,
    description: null,
    disputed: false,
    failure_code: isPaid ? null : 'card_declined',
    failure_message: isPaid ? null : 'Your card was declined.',
    livemode: state.livemode,
    metadata: {},
    paid: isPaid,
    payment_method: method?.id ?? null,
    payment_method_details: method?.card
      ? { type: 'card', card: { brand: method.card.brand, last4: method.card.last4, exp_month: 12, exp_year: 2040 } }
      : null,
    receipt_email: invoice.customer_email,
    refunded: false,
    status: isPaid ? 'succeeded' : 'failed',
  } as Stripe.Charge
  state.charges.set(made.id, made)
  emit(state, isPaid ? 'charge.succeeded' : 'charge.failed', made)
  return made
}
