/**
 * Billing: the provider's subscriptions as the plans of tenants, and what follows when a payment fails. This is what hosts call; what
 * the provider says comes in by the receiver, and is done by jobs.
 */
import { z } from 'zod'
import { DependencyUnavailable, invalid } from '../../kernel/errors.ts'
import { isUuid } from '../../kernel/ids.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { parsed } from '../../kernel/parsed.ts'
import { assertTenantExists, assertTenantOpen } from '../../tenants/existing.ts'
import type { Tenants } from '../../tenants/index.ts'
import { Customers } from './customers.ts'
import { Departures } from './departures.ts'
import { DunningCases } from './dunning-cases.ts'
import { planOfItems } from './entitlement.ts'
import { PaymentRejected, PriceNotMapped, SubscriptionNotFound } from './errors.ts'
import { BillingMisconfigured } from './events.ts'
import { Inbox } from './inbox.ts'
import type { BillingPart } from './part.ts'
import type { BillingParts } from './parts.ts'
import { faultOf, type Payments } from './payments.ts'
import { Processing } from './processing.ts'
import { ProviderHealth } from './provider-health.ts'
import { Receiver } from './receiver.ts'
import {
  type BillingOfTenant,
  CancelWish,
  ChangeWish,
  type CheckoutAnswer,
  CheckoutWish,
  PortalWish,
} from './resource.ts'
import { BillingSeries } from './series.ts'
import type { Settings } from './settings.ts'
import { hasEnded, Subscriptions } from './subscriptions.ts'
import { Sync } from './sync.ts'
import { Usage } from './usage.ts'
import { UsageWindows } from './usage-windows.ts'
import { Views } from './views.ts'

export class Billing {
  readonly receiver: Receiver
  readonly inbox: Inbox
  readonly processing: Processing
  readonly dunning: DunningCases
  readonly usage: Usage
  readonly health: ProviderHealth
  readonly sync: Sync
  readonly views: Views
  readonly departures: Departures
  readonly series: BillingSeries
  readonly customers: Customers
  readonly part: BillingPart
  readonly #subscriptions: Subscriptions
  readonly #windows: UsageWindows

  /** @param verify throws when billing must not be used as it is configured */
  constructor(kernel: Kernel, tenants: Tenants, settings: Settings, payments: Payments, verify: () => void) {
    verify()
    this.verify = verify
    const { products, defaultPlan = tenants.plans.describe().defaultPlan } = settings
    const part: BillingPart = { kernel, tenants, payments, settings, plans: { products, defaultPlan } }
    this.part = part
    this.inbox = new Inbox(part)
    this.customers = new Customers(part)
    this.#subscriptions = new Subscriptions(part)
    this.dunning = new DunningCases(part, this.#subscriptions)
    const { inbox, customers, dunning } = this
    const parts: BillingParts = { part, inbox, customers, subscriptions: this.#subscriptions, dunning }
    this.receiver = new Receiver(part, inbox)
    this.processing = new Processing(parts)
    this.usage = new Usage(part, customers)
    this.#windows = new UsageWindows(this.usage, kernel.log)
    this.health = new ProviderHealth(part)
    this.sync = new Sync(parts)
    this.views = new Views(parts)
    this.series = new BillingSeries(part)
    this.departures = new Departures(part, customers)
  }

  /** Throws when the key, the secret or the plans do not fit; it is asked at the start. */
  readonly verify: () => void

  /** What is known of a tenant's billing. `E_TENANT_NOT_FOUND`. */
  async of(tenantId: string): Promise<BillingOfTenant> {
    await assertTenantExists(this.part.kernel.database, tenantId)
    return this.views.of(tenantId)
  }

  /** The tenant's customer at the provider, made when there is none. */
  ensureCustomer(tenantId: string): Promise<string> {
    return this.#asked('billing.customer', tenantId, () => this.customers.ensure(tenantId))
  }

  /**
   * Where somebody of the tenant subscribes: send the browser to `url`. `E_PRICE_NOT_MAPPED` for a price that stands for no plan.
   * By `resilience.provider.checkout: 'fail-open'` it is `cancelUrl`, with a null id, while the provider does not answer.
   */
  async checkout(tenantId: string, wish: CheckoutWish): Promise<CheckoutAnswer> {
    const { priceId, successUrl, cancelUrl, trialDays, allowPromotionCodes } = parsed(CheckoutWish, wish)
    try {
      return await this.#asked('billing.checkout', tenantId, async () => {
        const customerId = await this.customers.ensure(tenantId)
        await this.#assertMapped(priceId)
        const request = { tenantId, customerId, priceId, successUrl, cancelUrl, trialDays, allowPromotionCodes }
        return this.part.payments.checkout(request)
      })
    } catch (error) {
      this.part.kernel.resilience.degrade('provider.checkout', 'billing.checkout', tenantId, error)
      return { url: cancelUrl, id: null }
    }
  }

  /** Where somebody of the tenant sees invoices and changes means of payment. */
  portal(tenantId: string, wish: PortalWish): Promise<{ url: string }> {
    const { returnUrl } = parsed(PortalWish, wish)
    return this.#asked('billing.portal', tenantId, async () => {
      const customerId = await this.customers.ensure(tenantId)
      return { url: await this.part.payments.portal(customerId, returnUrl) }
    })
  }

  /** To another price of the mapping, or the one price of a plan. `E_SUBSCRIPTION_NOT_FOUND` when the tenant has none. */
  async changePlan(tenantId: string, wish: ChangeWish): Promise<BillingOfTenant> {
    const { priceId, plan } = parsed(ChangeWish, wish)
    await this.#asked('billing.changePlan', tenantId, async () => {
      const { id } = await this.#running(tenantId)
      const price = priceId ?? this.#onlyPriceOf(plan ?? '')
      await this.#assertMapped(price)
      await this.sync.adopt(await this.part.payments.changePrice(id, price))
    })
    return this.views.of(tenantId)
  }

  /** Ends the tenant's subscription: at the end of what is paid, or now. `E_SUBSCRIPTION_NOT_FOUND` when it has none. */
  async cancel(tenantId: string, wish: CancelWish = {}): Promise<BillingOfTenant> {
    const { atPeriodEnd } = parsed(CancelWish, wish)
    await this.#asked('billing.cancel', tenantId, async () => {
      const { id } = await this.#running(tenantId)
      await this.sync.adopt(await this.part.payments.cancel(id, { atPeriodEnd }))
    })
    return this.views.of(tenantId)
  }

  /**
   * Reports usage that the host has counted by itself. The same id counts once, however often it is reported. True when it is new.
   * @param quantity a whole number above 0
   */
  async reportUsage(tenantId: string, meter: string, quantity: number, { id }: { id: string }): Promise<boolean> {
    if (!Number.isSafeInteger(quantity) || quantity <= 0) {
      throw invalid([{ path: 'quantity', message: 'not a whole number above 0' }])
    }
    if (!isUuid(id)) throw invalid([{ path: 'id', message: 'not a UUID' }])
    parsed(z.string().min(1).max(100), meter, 'meter')
    await assertTenantOpen(this.part.kernel.database, tenantId)
    return this.usage.report(tenantId, { meter, quantity, at: this.part.kernel.clock.now() }, id)
  }

  /** For `health.register('billing', () => tenancy.billing.check())`; it calls nobody. */
  check(): Promise<string | undefined> {
    return this.health.check()
  }

  /** Closes windows of usage by itself, in a worker. */
  async work(): Promise<void> {
    const { kernel, settings, tenants } = this.part
    if (tenants.plans.isDecidedByHost) {
      const payload = {
        tenantId: null,
        reason: 'plan_resolved_by_host' as const,
        subscriptionId: null,
        customerId: null,
      }
      await kernel.events.publish(BillingMisconfigured, payload)
      kernel.log.warn('plans.getPlan decides which plan tenants have: billing writes none')
    }
    const quotas = Object.entries(settings.usage)
    if (quotas.length > 0 && !kernel.store.sums.outliveProcess) {
      kernel.log.warn('the store ends with the process: usage that was not reported by then is lost')
    }
    this.#windows.start(settings.usage)
  }

  async stop(): Promise<void> {
    this.series.stop()
    await this.#windows.stop()
  }

  async #running(tenantId: string) {
    await assertTenantExists(this.part.kernel.database, tenantId)
    const running = (await this.#subscriptions.ofTenant(tenantId)).find((one) => !hasEnded(one))
    if (!running) throw SubscriptionNotFound(`The tenant "${tenantId}" has no subscription that runs.`)
    return running
  }

  async #assertMapped(priceId: string): Promise<void> {
    const { payments, plans } = this.part
    if (plans.products[priceId] !== undefined) return
    const productId = (await payments.productOf(priceId)) ?? null
    if (planOfItems([{ priceId, productId }], plans) === undefined) {
      throw PriceNotMapped(`Neither the price ${priceId} nor its product is in billing.products.`)
    }
  }

  #onlyPriceOf(plan: string): string {
    const prices = Object.entries(this.part.plans.products).filter(
      ([id, name]) => name === plan && id.startsWith('price_'),
    )
    const [only] = prices
    if (only && prices.length === 1) return only[0]
    const message = only
      ? 'several prices stand for it; name one with priceId'
      : 'no price stands for it; name one with priceId'
    throw invalid([{ path: 'plan', message }])
  }

  /** What the provider refuses becomes an error of ours; its own words are in the log. */
  async #asked<T>(operation: string, tenantId: string, ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      const { code } = faultOf(error)
      if (code === 'unhandled') throw error
      if (code === 'subscription_not_found') throw SubscriptionNotFound('The provider has no such subscription.')
      if (code === 'provider_rejected') {
        throw PaymentRejected('The provider of payments has refused; the log says why.', { cause: error })
      }
      this.part.kernel.log.warn({ operation, tenantId, code }, 'the provider of payments could not be asked')
      throw DependencyUnavailable('The provider of payments cannot be reached at the moment. Try again.', {
        retryAfterSeconds: this.part.kernel.resilience.retryAfterSeconds,
        cause: error,
      })
    }
  }
}
