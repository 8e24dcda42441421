/** Invoices, from draft to paid, void or uncollectible. Their effect on a subscription is in `collection.ts`. */
import type Stripe from 'stripe'
import { decimal } from '../catalog.ts'
import { emit, update } from '../events.ts'
import { whollyListed } from '../lists.ts'
import { idOf, type State } from '../state.ts'

export interface Line {
  readonly item: Stripe.SubscriptionItem
  readonly amount: number
  readonly quantity: number
  readonly period: Stripe.InvoiceLineItem.Period
  readonly isProration?: boolean
  readonly description: string
}

export function buildLine(state: State, { item, ...line }: Line): Stripe.InvoiceLineItem {
  return {
    id: state.id('il'),
    object: 'line_item',
    amount: line.amount,
    currency: item.price.currency,
    description: line.description,
    discount_amounts: [],
    discountable: !line.isProration,
    discounts: [],
    invoice: null,
    livemode: state.livemode,
    metadata: {},
    parent: {
      invoice_item_details: null,
      subscription_item_details: {
        invoice_item: null,
        proration: line.isProration ?? false,
        proration_details: null,
        subscription: item.subscription,
        subscription_item: item.id,
      },
      type: 'subscription_item_details',
    },
    period: line.period,
    pretax_credit_amounts: [],
    pricing: {
      price_details: { price: item.price.id, product: idOf(item.price.product) },
      type: 'price_details',
      unit_amount_decimal: item.price.unit_amount_decimal,
    },
    quantity: line.quantity,
    quantity_decimal: decimal(line.quantity),
    subscription: item.subscription,
    subtotal: line.amount,
    taxes: [],
  }
}

/**
 * Time of the finalization of a draft: immediately by its creator, at this second automatically, or never
 * automatically.
 */
export type Finalizes = 'now' | 'never' | number

/** Creates a draft for the subscription's customer, including pending prorations. Emits no event. */
export function draftInvoice(
  state: State,
  subscription: Stripe.Subscription,
  reason: Stripe.Invoice.BillingReason,
  newLines: readonly Stripe.InvoiceLineItem[],
  finalizes: Finalizes,
): Stripe.Invoice {
  const customer = state.customers.get(idOf(subscription.customer))
  const lines = [...(state.prorations.get(subscription.id) ?? []), ...newLines]
  state.prorations.delete(subscription.id)
  const total = lines.reduce((sum, { amount }) => sum + amount, 0)
  const id = state.id('in')
  const balance = customer?.balance ?? 0
  const due = Math.max(0, total + balance)
  const finalizesAt = typeof finalizes === 'number' ? finalizes : null
  const invoice = {
    id,
    object: 'invoice',
    account_country: 'US',
    account_name: 'Provider',
    account_tax_ids: null,
    amount_due: due,
    amount_overpaid: 0,
    amount_paid: 0,
    amount_remaining: due,
    amount_shipping: 0,
    application: null,
    attempt_count: 0,
    attempted: false,
    auto_advance: finalizes !== 'never',
    automatic_tax: { disabled_reason: null, enabled: false, liability: null, provider: null, status: null },
    automatically_finalizes_at: finalizesAt,
    billing_reason: reason,
    collection_method: 'charge_automatically',
    created: state.now,
    currency: subscription.currency,
    custom_fields: null,
    customer: idOf(subscription.customer),
    customer_account: null,
    customer_address: customer?.address ?? null,
    customer_email: customer?.email ?? null,
    customer_name: customer?.name ?? null,
    customer_phone: customer?.phone ?? null,
    customer_shipping: null,
    customer_tax_exempt: 'none',
    customer_tax_ids: [],
    default_payment_method: null,
    default_source: null,
    default_tax_rates: [],
    description: null,
    discounts: [],
    due_date: null,
    effective_at: null,
    ending_balance: null,
    footer: null,
    from_invoice: null,
    hosted_invoice_url: null,
    invoice_pdf: null,
    issuer: { type: 'self' },
    last_finalization_error: null,
    latest_revision: null,
    lines: whollyListed(
      lines.map((line) => ({ ...line, invoice: id })),
      `/v1/invoices/${id}/lines`,
    ),
    livemode: state.livemode,
    metadata: {},
    next_payment_attempt: finalizesAt,
    number: null,
    on_behalf_of: null,
    parent: {
      quote_details: null,
      subscription_details: { metadata: { ...subscription.metadata }, subscription: subscription.id },
      type: 'subscription_details',
    },
    payment_settings: { default_mandate: null, payment_method_options: null, payment_method_types: null },
    period_end: state.now,
    period_start: reason === 'subscription_cycle' ? Math.min(...lines.map(({ period }) => period.start)) : state.now,
    post_payment_credit_notes_amount: 0,
    pre_payment_credit_notes_amount: 0,
    receipt_number: null,
    rendering: null,
    shipping_cost: null,
    shipping_details: null,
    starting_balance: balance,
    statement_descriptor: null,
    status: 'draft',
    status_transitions: { finalized_at: null, marked_uncollectible_at: null, paid_at: null, voided_at: null },
    subtotal: total,
    subtotal_excluding_tax: total,
    test_clock: null,
    total,
    total_discount_amounts: [],
    total_excluding_tax: total,
    total_pretax_credit_amounts: [],
    total_taxes: [],
    webhooks_delivered_at: null,
  } satisfies Stripe.Invoice
  state.invoices.set(id, invoice)
  return invoice
}

export function finalize(state: State, invoice: Stripe.Invoice): void {
  const customer = invoice.customer ? state.customers.get(idOf(invoice.customer)) : undefined
  invoice.status = 'open'
  invoice.automatically_finalizes_at = null
  invoice.next_payment_attempt = invoice.auto_advance ? state.now : null
  invoice.status_transitions.finalized_at = state.now
  invoice.effective_at = state.now
  invoice.ending_balance = Math.min(0, invoice.total + invoice.starting_balance)
  invoice.hosted_invoice_url = `https://invoice.stripe.com/i/${state.accountId}/${invoice.id}`
  invoice.invoice_pdf = `https://pay.stripe.com/invoice/${state.accountId}/${invoice.id}/pdf`
  if (customer) {
    const sequence = customer.next_invoice_sequence ?? 1
    invoice.number = `${customer.invoice_prefix}-${String(sequence).padStart(4, '0')}`
    customer.next_invoice_sequence = sequence + 1
    const balance = invoice.ending_balance
    update(state, 'customer.updated', customer, (one) => {
      one.balance = balance
    })
  }
  emit(state, 'invoice.finalized', invoice)
}

export function markPaid(state: State, invoice: Stripe.Invoice): void {
  invoice.status = 'paid'
  invoice.attempted = true
  invoice.auto_advance = false
  invoice.amount_paid = invoice.amount_due
  invoice.amount_remaining = 0
  invoice.next_payment_attempt = null
  invoice.status_transitions.paid_at = state.now
  emit(state, 'invoice.paid', invoice)
  emit(state, 'invoice.payment_succeeded', invoice)
}

export function voidInvoice(state: State, invoice: Stripe.Invoice): void {
  invoice.status = 'void'
  invoice.auto_advance = false
  invoice.automatically_finalizes_at = null
  invoice.next_payment_attempt = null
  invoice.status_transitions.voided_at = state.now
  emit(state, 'invoice.voided', invoice)
}

export function markUncollectible(state: State, invoice: Stripe.Invoice): void {
  invoice.status = 'uncollectible'
  invoice.auto_advance = false
  invoice.next_payment_attempt = null
  invoice.status_transitions.marked_uncollectible_at = state.now
  emit(state, 'invoice.marked_uncollectible', invoice)
}

/** Stops further attempts; the invoices of an ended subscription keep their status. */
export function stopCollecting(state: State, subscriptionId: string): void {
  for (const invoice of invoicesOf(state, subscriptionId)) {
    if (invoice.status !== 'open' && invoice.status !== 'draft') continue
    update(state, 'invoice.updated', invoice, (one) => {
      one.auto_advance = false
      one.automatically_finalizes_at = null
      one.next_payment_attempt = null
    })
  }
}

export function invoicesOf(state: State, subscriptionId: string): Stripe.Invoice[] {
  return [...state.invoices.values()].filter((invoice) => subscriptionIdOf(invoice) === subscriptionId)
}

export function subscriptionIdOf(invoice: Stripe.Invoice): string | undefined {
  const reference = invoice.parent?.subscription_details?.subscription
  return reference && idOf(reference)
}
