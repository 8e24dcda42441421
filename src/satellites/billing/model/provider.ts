/**
 * Port of the payment provider: its objects, its requests, and its errors. Another provider is another implementation
 * next to stripe/provider.ts.
 *
 * - Times are dates. Amounts are in the smallest unit of their currency.
 * - A read returns the current state at the provider, or undefined if the provider no longer has the object.
 */

/** Type of the event that tests the delivery from the provider to the inbox. The provider itself never uses it. */
export const TEST_TYPE = 'tenantry.test'

export const SUBSCRIPTION_STATUSES = [
  'incomplete',
  'incomplete_expired',
  'trialing',
  'active',
  'past_due',
  'canceled',
  'unpaid',
  'paused',
] as const
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number]

export interface ProviderItem {
  readonly id: string
  readonly priceId: string
  readonly productId: string | null
  readonly quantity: number
}

export interface ProviderSubscription {
  readonly id: string
  readonly customerId: string
  readonly status: SubscriptionStatus
  /** Subscribed prices; the first item that is mapped to a plan decides. */
  readonly items: readonly ProviderItem[]
  readonly periodStart: Date | null
  readonly periodEnd: Date | null
  readonly trialEnd: Date | null
  readonly cancelAtPeriodEnd: boolean
  readonly cancelAt: Date | null
  readonly endedAt: Date | null
  /** Whether collection is paused while the subscription continues. */
  readonly isCollectionPaused: boolean
  /** Tenant id in the metadata of the subscription. */
  readonly tenantId: string | null
  readonly createdAt: Date
}

export const INVOICE_STATUSES = ['draft', 'open', 'paid', 'uncollectible', 'void'] as const
export type InvoiceStatus = (typeof INVOICE_STATUSES)[number]

export interface ProviderInvoice {
  readonly id: string
  readonly customerId: string | null
  readonly subscriptionId: string | null
  readonly status: InvoiceStatus
  /** Whether it is the first invoice of a subscription, which is incomplete until this invoice is paid. */
  readonly isFirst: boolean
  readonly attempt: number
  readonly nextAttemptAt: Date | null
  readonly amountDue: number
  readonly amountPaid: number
  /** Lowercase ISO code. */
  readonly currency: string
  /** End of the billing period of the invoice: the period that begins, or the period in which a change was made. */
  readonly periodEnd: Date
}

/** Whether the invoice is paid or no longer owed. */
export const isDone = ({ status }: Pick<ProviderInvoice, 'status'>): boolean => status === 'paid' || status === 'void'

/** Whether money was collected. A trial invoice of zero is not a payment. */
export const isPayment = ({ status, amountPaid }: Pick<ProviderInvoice, 'status' | 'amountPaid'>): boolean =>
  status === 'paid' && amountPaid > 0

export interface ProviderSession {
  readonly id: string
  readonly customerId: string | null
  readonly subscriptionId: string | null
  /** Tenant id given at the creation of the checkout. */
  readonly reference: string | null
}

/** Object of an event. `before` contains the previous values of the changed members. */
export type Subject =
  | {
      readonly kind: 'subscription'
      readonly subscription: ProviderSubscription
      readonly before: Partial<ProviderSubscription> | null
    }
  | { readonly kind: 'invoice'; readonly invoice: ProviderInvoice }
  | { readonly kind: 'session'; readonly session: ProviderSession }
  | { readonly kind: 'customer'; readonly customerId: string; readonly isDeleted: boolean }
  | { readonly kind: 'other' }

/** A received event: verified, and without personal data. */
export interface ProviderEvent {
  readonly id: string
  readonly type: string
  readonly createdAt: Date
  readonly isLive: boolean
  readonly customerId: string | null
  /** Kept unchanged for replays; `subjectOf` reads it. */
  readonly payload: Readonly<Record<string, unknown>>
}

export interface CheckoutOptions {
  readonly tenantId: string
  readonly customerId: string
  readonly priceId: string
  /** Prices of metered usage, in addition to the price of the plan. */
  readonly meteredPriceIds: readonly string[]
  readonly successUrl: string
  readonly cancelUrl: string
  readonly trialDays?: number | undefined
  readonly allowPromotionCodes?: boolean | undefined
}

export interface UsageReport {
  /** Identical in all attempts to send the report. */
  readonly id: string
  readonly customerId: string
  readonly meter: string
  readonly quantity: number
  readonly at: Date
}

/** Every method throws PaymentError. */
export interface Payments {
  /** Whether the key is a live key. */
  readonly isLive: boolean
  /**
   * Undefined if no secret has signed the body within the last 5 minutes. Throws `payload_invalid` if the body is not
   * an event.
   */
  verified(body: Uint8Array, signature: string): Promise<ProviderEvent | undefined>
  subjectOf(event: Pick<ProviderEvent, 'type' | 'payload'>): Subject
  /** A signed body and its signature header, as the provider sends them. Used to test an endpoint. */
  signed(event: Readonly<Record<string, unknown>>): Promise<{ readonly body: string; readonly signature: string }>
  ping(timeoutMs: number): Promise<void>
  subscription(id: string): Promise<ProviderSubscription | undefined>
  /** All subscriptions of a customer, including ended ones. */
  subscriptions(customerId: string): AsyncIterable<ProviderSubscription>
  invoice(id: string): Promise<ProviderInvoice | undefined>
  /** Latest invoice of a subscription for which money was collected. */
  lastPaid(subscriptionId: string): Promise<ProviderInvoice | undefined>
  /** False if the customer has been deleted. */
  hasCustomer(customerId: string): Promise<boolean>
  /** Tenant id in the metadata of the customer. */
  tenantOf(customerId: string): Promise<string | undefined>
  /** Ids of customers with this tenant id in their metadata. New and changed ones appear after about a minute. */
  customersOf(tenantId: string): AsyncIterable<string>
  /** Also ends its subscriptions. No effect on a deleted customer. */
  deleteCustomer(customerId: string): Promise<void>
  productOf(priceId: string): Promise<string | undefined>
  /** Idempotent for a day: the same tenant and sequence number return the same customer. */
  createCustomer(tenantId: string, sequence: number): Promise<string>
  checkout(options: CheckoutOptions): Promise<{ readonly id: string; readonly url: string }>
  portal(customerId: string, returnUrl: string): Promise<string>
  /** Changes the price of the plan's item, or of the first item if there is none. Metered items stay. */
  changePrice(
    subscriptionId: string,
    priceId: string,
    isPlan: (item: ProviderItem) => boolean,
  ): Promise<ProviderSubscription>
  cancel(subscriptionId: string, options: { readonly atPeriodEnd: boolean }): Promise<ProviderSubscription>
  reportUsage(report: UsageReport): Promise<void>
  /** Events that the provider still has, in its order: usually the newest first. */
  events(since: Date): AsyncIterable<ProviderEvent>
}

/** Public codes of failures. The provider's own messages are only logged. */
export const ERROR_CODES = [
  'tenant_not_resolvable',
  'customer_not_found',
  'subscription_not_found',
  'plan_unmapped',
  'provider_unavailable',
  'provider_rate_limited',
  'provider_rejected',
  'authentication_failed',
  'payload_invalid',
  'unhandled',
] as const
export type BillingErrorCode = (typeof ERROR_CODES)[number]

/** Failures that can succeed on a retry. */
const PASSING: ReadonlySet<BillingErrorCode> = new Set([
  'tenant_not_resolvable',
  'provider_unavailable',
  'provider_rate_limited',
  'unhandled',
])

export class PaymentError extends Error {
  readonly code: BillingErrorCode

  constructor(code: BillingErrorCode, options: ErrorOptions = {}) {
    super(code, options)
    this.code = code
  }

  get isPassing(): boolean {
    return PASSING.has(this.code)
  }
}

export const paymentErrorOf = (error: unknown): PaymentError =>
  error instanceof PaymentError ? error : new PaymentError('unhandled', { cause: error })
