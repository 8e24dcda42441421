/**
 * Implements the payment provider with Stripe's client. The package `stripe` is loaded on first use, so hosts without
 * billing do not need it. Creating requests carry an idempotency key, so a repeated request creates one object.
 */
import { createHash } from 'node:crypto'
import type { Stripe as Client } from 'stripe'
import type { Logger } from '../../../kernel/base/logger.ts'
import {
  type CheckoutOptions,
  isPayment,
  PaymentError,
  type Payments,
  type ProviderEvent,
  type ProviderInvoice,
  type ProviderItem,
  type ProviderSubscription,
  type Subject,
  type UsageReport,
} from '../model/provider.ts'
import { isLiveKey, type Settings, secretsOf } from '../model/settings.ts'
import { causeOf, codeOf, rejectionOf } from './errors.ts'
import { eventOf, signedText, toEvent } from './events.ts'
import { toInvoice, toSubject, toSubscription } from './objects.ts'
import { UsageReports } from './usage.ts'

/** API version that the schemas in objects.ts are written for. */
export const API_VERSION = '2026-10-28.endive'
const PAGE_SIZE = 100

interface Page {
  readonly limit: number
  readonly starting_after?: string
}

export class StripePayments implements Payments {
  readonly isLive: boolean
  readonly #settings: Settings['stripe']
  readonly #secrets: readonly string[]
  readonly #log: Logger
  readonly #reports = new UsageReports((call) => this.#call(call))
  #client: Promise<Client> | undefined

  constructor(settings: Settings['stripe'], log: Logger) {
    this.#settings = settings
    this.#secrets = secretsOf(settings.webhookSecret)
    this.isLive = isLiveKey(settings.apiKey)
    this.#log = log
  }

  async verified(body: Uint8Array, signature: string): Promise<ProviderEvent | undefined> {
    const { webhooks } = await this.#stripe()
    const text = signedText(webhooks, this.#secrets, body, signature)
    return text === undefined ? undefined : eventOf(text)
  }

  subjectOf({ type, payload }: Pick<ProviderEvent, 'type' | 'payload'>): Subject {
    return toSubject(type, payload)
  }

  async signed(event: Readonly<Record<string, unknown>>): Promise<{ body: string; signature: string }> {
    const { webhooks } = await this.#stripe()
    const body = JSON.stringify(event)
    const [secret = ''] = this.#secrets
    return { body, signature: webhooks.generateTestHeaderString({ payload: body, secret }) }
  }

  async ping(timeoutMs: number): Promise<void> {
    await this.#call((client) => client.balance.retrieve({}, { timeout: timeoutMs, maxNetworkRetries: 0 }))
  }

  async subscription(id: string): Promise<ProviderSubscription | undefined> {
    const found = await this.#find((client) => client.subscriptions.retrieve(id))
    return found && toSubscription(found)
  }

  async *subscriptions(customerId: string): AsyncIterable<ProviderSubscription> {
    const list = (client: Client, page: Page) =>
      client.subscriptions.list({
        customer: customerId,
        status: 'all',
        ...page,
      })
    for await (const found of this.#pages(list)) yield toSubscription(found)
  }

  async invoice(id: string): Promise<ProviderInvoice | undefined> {
    const found = await this.#find((client) => client.invoices.retrieve(id))
    return found && toInvoice(found)
  }

  async lastPaid(subscriptionId: string): Promise<ProviderInvoice | undefined> {
    const list = (client: Client, page: Page) =>
      client.invoices.list({
        subscription: subscriptionId,
        status: 'paid',
        ...page,
      })
    for await (const found of this.#pages(list)) {
      const invoice = toInvoice(found)
      if (isPayment(invoice)) return invoice
    }
    return undefined
  }

  /**
   * Stripe returns deleted customers with `deleted`. An unknown customer belongs to another account or another mode.
   */
  async hasCustomer(customerId: string): Promise<boolean> {
    const found = await this.#find((client) => client.customers.retrieve(customerId))
    if (!found) throw new PaymentError('customer_not_found')
    return !found.deleted
  }

  async tenantOf(customerId: string): Promise<string | undefined> {
    const found = await this.#find((client) => client.customers.retrieve(customerId))
    return found && !found.deleted ? found.metadata.tenantId : undefined
  }

  /** The search ignores case. */
  async *customersOf(tenantId: string): AsyncIterable<string> {
    const query = `metadata['tenantId']:'${tenantId}'`
    for (let page: string | undefined; ; ) {
      const next = page ? { page } : {}
      const found = await this.#call((client) => client.customers.search({ query, limit: PAGE_SIZE, ...next }))
      for (const { id, metadata } of found.data) if (metadata.tenantId === tenantId) yield id
      page = found.next_page ?? undefined
      if (!page) return
    }
  }

  async deleteCustomer(customerId: string): Promise<void> {
    await this.#find((client) => client.customers.del(customerId))
  }

  async productOf(priceId: string): Promise<string | undefined> {
    const found = await this.#find((client) => client.prices.retrieve(priceId))
    return found && (typeof found.product === 'string' ? found.product : found.product.id)
  }

  async createCustomer(tenantId: string, sequence: number): Promise<string> {
    const { id } = await this.#call((client) =>
      client.customers.create({ metadata: { tenantId } }, keyed('customer', tenantId, String(sequence))),
    )
    return id
  }

  async checkout(options: CheckoutOptions): Promise<{ id: string; url: string }> {
    const { tenantId, customerId, priceId, meteredPriceIds, successUrl, cancelUrl, trialDays, allowPromotionCodes } =
      options
    const price = await this.#call((client) => client.prices.retrieve(priceId))
    // A metered price must not have a quantity.
    const plan = { price: priceId, ...(price.recurring?.usage_type === 'metered' ? {} : { quantity: 1 }) }
    const metered = [...new Set(meteredPriceIds)].filter((id) => id !== priceId).map((id) => ({ price: id }))
    const metadata = { tenantId }
    const { id, url } = await this.#call((client) =>
      client.checkout.sessions.create({
        mode: 'subscription',
        customer: customerId,
        client_reference_id: tenantId,
        line_items: [plan, ...metered],
        success_url: successUrl,
        cancel_url: cancelUrl,
        metadata,
        subscription_data: { metadata, ...(trialDays ? { trial_period_days: trialDays } : {}) },
        ...(allowPromotionCodes ? { allow_promotion_codes: true } : {}),
      }),
    )
    if (url === null) throw new PaymentError('provider_rejected')
    return { id, url }
  }

  async portal(customerId: string, returnUrl: string): Promise<string> {
    const { url } = await this.#call((client) =>
      client.billingPortal.sessions.create({ customer: customerId, return_url: returnUrl }),
    )
    return url
  }

  async changePrice(
    subscriptionId: string,
    priceId: string,
    isPlan: (item: ProviderItem) => boolean,
  ): Promise<ProviderSubscription> {
    const { items } = await this.#existing(subscriptionId)
    const item = items.find(isPlan) ?? items[0]
    if (!item) throw new PaymentError('subscription_not_found')
    const changed = await this.#call((client) =>
      client.subscriptions.update(subscriptionId, { items: [{ id: item.id, price: priceId }] }),
    )
    return toSubscription(changed)
  }

  async cancel(subscriptionId: string, { atPeriodEnd }: { atPeriodEnd: boolean }): Promise<ProviderSubscription> {
    const known = await this.#existing(subscriptionId)
    if (known.endedAt) return known
    if (atPeriodEnd) {
      const changed = await this.#call((client) =>
        client.subscriptions.update(subscriptionId, { cancel_at_period_end: true }),
      )
      return toSubscription(changed)
    }
    // `invoice_now` bills the usage of the current period. A repetition after a lost response finds no subscription to
    // cancel.
    const ended = await this.#find((client) => client.subscriptions.cancel(subscriptionId, { invoice_now: true }))
    return ended ? toSubscription(ended) : this.#existing(subscriptionId)
  }

  reportUsage(report: UsageReport): Promise<void> {
    return this.#reports.send(report)
  }

  async *events(since: Date): AsyncIterable<ProviderEvent> {
    const list = (client: Client, page: Page) =>
      client.events.list({
        created: { gte: Math.floor(since.getTime() / 1000) },
        ...page,
      })
    for await (const event of this.#pages(list)) yield toEvent(event)
  }

  /** Loads one page at a time, on demand. */
  async *#pages<Item extends { id: string }>(
    list: (client: Client, page: Page) => Promise<{ data: Item[]; has_more: boolean }>,
  ): AsyncIterable<Item> {
    for (let after: string | undefined; ; ) {
      const page = { limit: PAGE_SIZE, ...(after ? { starting_after: after } : {}) }
      const { data, has_more: hasMore } = await this.#call((client) => list(client, page))
      yield* data
      after = data.at(-1)?.id
      if (!hasMore || !after) return
    }
  }

  async #existing(subscriptionId: string): Promise<ProviderSubscription> {
    const found = await this.subscription(subscriptionId)
    if (!found) throw new PaymentError('subscription_not_found')
    return found
  }

  async #find<T>(call: (client: Client) => Promise<T>): Promise<T | undefined> {
    try {
      return await this.#call(call)
    } catch (error) {
      if (causeOf(error)?.code === 'resource_missing') return undefined
      throw error
    }
  }

  async #call<T>(call: (client: Client) => Promise<T>): Promise<T> {
    const client = await this.#stripe()
    try {
      return await call(client)
    } catch (error) {
      const code = codeOf(error)
      const rejection = rejectionOf(error)
      this.#log.warn({ code, provider: rejection }, 'the payment provider rejected a request, or did not respond')
      throw new PaymentError(code, { cause: code === 'unhandled' ? error : rejection })
    }
  }

  #stripe(): Promise<Client> {
    this.#client ??= this.#open().catch((error) => {
      this.#client = undefined
      throw error
    })
    return this.#client
  }

  async #open(): Promise<Client> {
    const { default: Stripe } = await import('stripe').catch((cause) => {
      throw new Error('billing requires the package stripe. Install it: npm install stripe', { cause })
    })
    const { apiKey, apiVersion = API_VERSION, timeoutMs, maxNetworkRetries, endpoint } = this.#settings
    const client = new Stripe(apiKey, {
      apiVersion: apiVersion as typeof API_VERSION,
      timeout: timeoutMs,
      maxNetworkRetries,
      telemetry: false,
      ...(endpoint === undefined ? {} : serverAt(endpoint)),
    })
    this.#reports.watch(client)
    return client
  }
}

/** Equal parts have an equal idempotency key, in every process. Stripe keeps the response for a day. */
const keyed = (purpose: string, ...parts: readonly string[]) => ({
  idempotencyKey: `tenantry-${purpose}-${createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 40)}`,
})

/** Options of Stripe's client for a URL. Without a port, the default port of the protocol applies. */
export function serverAt(endpoint: string): { host: string; port: number; protocol: 'http' | 'https' } {
  const { hostname, port, protocol } = new URL(endpoint)
  const isSecure = protocol === 'https:'
  return { host: hostname, port: Number(port) || (isSecure ? 443 : 80), protocol: isSecure ? 'https' : 'http' }
}
