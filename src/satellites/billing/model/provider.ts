/**
 * The provider of payments, as billing knows it: what there is (subscription, invoice, price), what can be asked of it, and how it
 * fails. Another provider is another file beside stripe/provider.ts.
 *
 * Times are dates, amounts are in the smallest unit of their currency. What is read is what the provider has now, or undefined where
 * it no longer has it.
 */

/** Type of the event that tests the way from the provider to the inbox. No event of a provider has it. */
export const TEST_TYPE = 'tenantry.test'

/** The provider's eight. */
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
  /** What is paid for; the first one that a plan is mapped to decides. */
  readonly items: readonly ProviderItem[]
  readonly periodStart: Date | null
  readonly periodEnd: Date | null
  readonly trialEnd: Date | null
  readonly cancelAtPeriodEnd: boolean
  readonly cancelAt: Date | null
  readonly endedAt: Date | null
  /** Whether nothing is collected for a while, although it goes on. */
  readonly isCollectionPaused: boolean
  /** What whoever made it has noted. */
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
  /** The first of a subscription, which has not begun before it is paid. */
  readonly isFirst: boolean
  readonly attempt: number
  readonly nextAttemptAt: Date | null
  readonly amountDue: number
  readonly amountPaid: number
  /** Lowercase ISO code. */
  readonly currency: string
  /** When the billing period ends that it is about: one that is begun, or one in which something was changed. */
  readonly periodEnd: Date
}

/** Paid, or not owed any more. */
export const isDone = ({ status }: Pick<ProviderInvoice, 'status'>): boolean => status === 'paid' || status === 'void'

/** Whether money came for it; a trial's invoice of nothing is no payment. */
export const isPayment = ({ status, amountPaid }: Pick<ProviderInvoice, 'status' | 'amountPaid'>): boolean =>
  status === 'paid' && amountPaid > 0

export interface ProviderSession {
  readonly id: string
  readonly customerId: string | null
  readonly subscriptionId: string | null
  /** The tenant, as it was given with the checkout. */
  readonly reference: string | null
}

/** What an event is about. `before` has the members that it changed, as they were. */
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

/** An event as it is received: verified, and free of everything that may concern a person. */
export interface ProviderEvent {
  readonly id: string
  readonly type: string
  readonly createdAt: Date
  readonly isLive: boolean
  readonly customerId: string | null
  /** Kept as it is for replays; `subjectOf` reads it. */
  readonly payload: Readonly<Record<string, unknown>>
}

export interface CheckoutOptions {
  readonly tenantId: string
  readonly customerId: string
  readonly priceId: string
  /** Of what is paid for by use, beside it. */
  readonly meteredPriceIds: readonly string[]
  readonly successUrl: string
  readonly cancelUrl: string
  readonly trialDays?: number | undefined
  readonly allowPromotionCodes?: boolean | undefined
}

export interface UsageReport {
  /** The same for every time it is sent. */
  readonly id: string
  readonly customerId: string
  readonly meter: string
  readonly quantity: number
  readonly at: Date
}

/** Each throws a PaymentError. */
export interface Payments {
  /** Whether its key is one for real money. */
  readonly isLive: boolean
  /** Undefined when none of the secrets has signed it lately; `payload_invalid` when it is no event. */
  verified(body: Uint8Array, signature: string): Promise<ProviderEvent | undefined>
  subjectOf(event: Pick<ProviderEvent, 'type' | 'payload'>): Subject
  /** A body and a header as the provider would send them; for trying out whether an endpoint is reached. */
  signed(event: Readonly<Record<string, unknown>>): Promise<{ readonly body: string; readonly signature: string }>
  ping(timeoutMs: number): Promise<void>
  subscription(id: string): Promise<ProviderSubscription | undefined>
  /** All of a customer, those that have ended as well. */
  subscriptions(customerId: string): AsyncIterable<ProviderSubscription>
  invoice(id: string): Promise<ProviderInvoice | undefined>
  /** The latest of a subscription for which money came. */
  lastPaid(subscriptionId: string): Promise<ProviderInvoice | undefined>
  /** Whether there still is one: it may have been deleted. */
  hasCustomer(customerId: string): Promise<boolean>
  /** The tenant that is noted with a customer. */
  tenantOf(customerId: string): Promise<string | undefined>
  productOf(priceId: string): Promise<string | undefined>
  /** The same customer however often it is asked for the same number in the sequence of a tenant, for a day. */
  createCustomer(tenantId: string, sequence: number): Promise<string>
  checkout(options: CheckoutOptions): Promise<{ readonly id: string; readonly url: string }>
  portal(customerId: string, returnUrl: string): Promise<string>
  /** Of the first item that is one of the plan, or of the first; what is paid for by use stays. */
  changePrice(
    subscriptionId: string,
    priceId: string,
    isPlan: (item: ProviderItem) => boolean,
  ): Promise<ProviderSubscription>
  cancel(subscriptionId: string, options: { readonly atPeriodEnd: boolean }): Promise<ProviderSubscription>
  reportUsage(report: UsageReport): Promise<void>
  /** The events that the provider still has, as it lists them: the newest first, as a rule. */
  events(since: Date): AsyncIterable<ProviderEvent>
}

/** What a failure is called towards everybody; a provider's own words go to the log alone. */
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

/** Those that time may mend. */
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

/** Whatever was thrown. */
export const paymentErrorOf = (error: unknown): PaymentError =>
  error instanceof PaymentError ? error : new PaymentError('unhandled', { cause: error })
