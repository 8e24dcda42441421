/** Public API of billing. Provider events arrive through the receiver and are processed by jobs. */
import { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { joinedOutbox } from '../../kernel/outbox/joining.ts'
import { assertTenantExists, assertTenantOpen } from '../../tenants/registry/tenant-assertions.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import { DunningCases } from './dunning/cases.ts'
import { Inbox } from './inbox/inbox.ts'
import { Receiver } from './inbox/receiver.ts'
import { BillingList } from './listing.ts'
import type { BillingDependencies } from './model/dependencies.ts'
import { planOfItems } from './model/entitlement.ts'
import { PriceNotMapped, SubscriptionNotFound } from './model/errors.ts'
import { BillingMisconfigured } from './model/events.ts'
import { type Payments, type ProviderItem, paymentErrorOf } from './model/provider.ts'
import { EventCounts } from './model/series.ts'
import type { Settings } from './model/settings.ts'
import { Processing } from './processing/processing.ts'
import type { BillingServices } from './processing/services.ts'
import { TenantDeletion } from './processing/tenant-deletion.ts'
import { callProvider } from './provider/provider-call.ts'
import { ProviderHealth } from './provider/provider-health.ts'
import { Views } from './read-models.ts'
import {
  type BillingOfTenant,
  CancelRequest,
  ChangePlanRequest,
  CheckoutRequest,
  type CheckoutSession,
  PortalRequest,
} from './resource.ts'
import { Customers } from './subscriptions/customers.ts'
import { hasEnded, Subscriptions } from './subscriptions/subscriptions.ts'
import { Sync } from './sync.ts'
import { usageIdOf } from './usage/ids.ts'
import { REPORT_USAGE } from './usage/posted-reports.ts'
import { Usage } from './usage/usage.ts'
import { UsageWindows } from './usage/windows.ts'

export class Billing {
  readonly receiver: Receiver
  readonly inbox: Inbox
  readonly processing: Processing
  readonly dunning: DunningCases
  readonly usage: Usage
  readonly windows: UsageWindows
  readonly health: ProviderHealth
  readonly sync: Sync
  readonly views: Views
  readonly listing: BillingList
  readonly tenantDeletion: TenantDeletion
  readonly counts = new EventCounts()
  readonly customers: Customers
  readonly dependencies: BillingDependencies
  readonly #subscriptions: Subscriptions

  /** @param verify throws if the settings are not usable */
  constructor(kernel: Kernel, tenants: Tenants, settings: Settings, payments: Payments, verify: () => void) {
    verify()
    this.verify = verify
    const { products, defaultPlan = tenants.plans.describe().defaultPlan } = settings
    const dependencies: BillingDependencies = { kernel, tenants, payments, settings, plans: { products, defaultPlan } }
    this.dependencies = dependencies
    this.inbox = new Inbox(dependencies)
    this.customers = new Customers(dependencies)
    this.#subscriptions = new Subscriptions(dependencies)
    this.dunning = new DunningCases(dependencies, this.#subscriptions)
    this.usage = new Usage(dependencies, this.customers)
    this.windows = new UsageWindows(dependencies, this.customers, this.usage)
    this.tenantDeletion = new TenantDeletion(
      dependencies,
      this.customers,
      this.#subscriptions,
      this.windows,
      this.dunning,
    )
    const { inbox, customers, dunning, tenantDeletion } = this
    const services: BillingServices = {
      dependencies,
      inbox,
      customers,
      subscriptions: this.#subscriptions,
      dunning,
      tenantDeletion,
    }
    this.receiver = new Receiver(dependencies, inbox)
    this.processing = new Processing(services, this.counts)
    this.health = new ProviderHealth(dependencies)
    this.sync = new Sync(services)
    this.views = new Views(services, this.windows)
    this.listing = new BillingList(dependencies)
    if (Object.keys(settings.usage).length > 0 && !kernel.store.sums.outliveProcess) {
      kernel.log.warn('the store does not outlive the process: unreported usage will be lost when the process ends')
    }
  }

  /** Throws if the API key, a webhook secret or a plan is invalid. Called at start. */
  readonly verify: () => void

  /** Stored billing state of a tenant. Throws `E_TENANT_NOT_FOUND`. */
  async of(tenantId: string): Promise<BillingOfTenant> {
    await assertTenantExists(this.dependencies.kernel.database, tenantId)
    return this.views.of(tenantId)
  }

  /** Returns the tenant's customer id at the provider; creates the customer if there is none. */
  ensureCustomer(tenantId: string): Promise<string> {
    return this.#callProvider('billing.customer', tenantId, () => this.customers.ensure(tenantId, 'billing.customer'))
  }

  /**
   * Starts a checkout; send the browser to `url`. Throws `E_PRICE_NOT_MAPPED` for a price without a plan. With
   * `resilience.provider.checkout: 'fail-open'` returns `cancelUrl` and a null id while the provider is unavailable.
   *
   * @example
   * const { url } = await tenancy.billing.checkout(tenantId, {
   *   priceId: 'price_1Abc',
   *   successUrl: 'https://app.example/paid',
   *   cancelUrl: 'https://app.example/plans',
   * })
   */
  async checkout(tenantId: string, options: CheckoutRequest): Promise<CheckoutSession> {
    const { priceId, successUrl, cancelUrl, trialDays, allowPromotionCodes } = parsed(CheckoutRequest, options)
    try {
      return await this.#callProvider('billing.checkout', tenantId, async () => {
        await assertTenantOpen(this.dependencies.kernel.database, tenantId)
        await this.#assertMapped(priceId)
        const meteredPriceIds = Object.values(this.dependencies.settings.usage).flatMap(({ priceId }) => priceId ?? [])
        const request = { tenantId, priceId, meteredPriceIds, successUrl, cancelUrl, trialDays, allowPromotionCodes }
        return this.#withCustomer(tenantId, 'billing.checkout', (customerId) =>
          this.dependencies.payments.checkout({ ...request, customerId }),
        )
      })
    } catch (error) {
      this.dependencies.kernel.resilience.degrade('provider.checkout', 'billing.checkout', tenantId, error)
      return { url: cancelUrl, id: null }
    }
  }

  /** Returns the URL of the provider's portal for invoices and payment methods. */
  portal(tenantId: string, options: PortalRequest): Promise<{ url: string }> {
    const { returnUrl } = parsed(PortalRequest, options)
    return this.#callProvider('billing.portal', tenantId, async () => ({
      url: await this.#withCustomer(tenantId, 'billing.portal', (customerId) =>
        this.dependencies.payments.portal(customerId, returnUrl),
      ),
    }))
  }

  /**
   * Changes to a mapped price, or to the only price of a plan. Throws `E_SUBSCRIPTION_NOT_FOUND` without a running
   * subscription.
   */
  async changePlan(tenantId: string, options: ChangePlanRequest): Promise<BillingOfTenant> {
    const { priceId, plan } = parsed(ChangePlanRequest, options)
    await this.#callProvider('billing.changePlan', tenantId, async () => {
      const { id } = await this.#running(tenantId)
      const price = priceId ?? this.#onlyPriceOf(plan ?? '')
      await this.#assertMapped(price)
      const isPlan = (item: ProviderItem) => planOfItems([item], this.dependencies.plans) !== undefined
      await this.sync.apply(await this.dependencies.payments.changePrice(id, price, isPlan))
      await this.#record('billing.changePlan', tenantId, id, { priceId: price })
    })
    return this.views.of(tenantId)
  }

  /**
   * Cancels the tenant's subscription at the end of the paid period, or immediately with a last invoice for metered
   * usage. Throws `E_SUBSCRIPTION_NOT_FOUND` without a running subscription.
   */
  async cancel(tenantId: string, options: CancelRequest = {}): Promise<BillingOfTenant> {
    const { atPeriodEnd } = parsed(CancelRequest, options)
    await this.#callProvider('billing.cancel', tenantId, async () => {
      const { id } = await this.#running(tenantId)
      if (!atPeriodEnd) await this.windows.reportNow(tenantId)
      await this.sync.apply(await this.dependencies.payments.cancel(id, { atPeriodEnd }))
      await this.#record('billing.cancel', tenantId, id, { atPeriodEnd })
    })
    return this.views.of(tenantId)
  }

  /**
   * Reports usage that the host has counted. Idempotent by id: returns true for a new report, false for a repeated one.
   * Without a customer the report waits. Inside a tenant's transaction it is added after the commit, and the result is
   * true. Throws `E_TENANT_NOT_FOUND`, `E_TENANT_STATE`, `E_INVALID_REQUEST`.
   *
   * @param quantity an integer above 0
   * @param id 1 to 200 characters. A UUID (case-insensitive) is unique across all tenants and meters, any other text
   * within this tenant and meter.
   * @example
   * await tenancy.billing.reportUsage(tenantId, 'api_calls', 12, { id: batchId })
   */
  async reportUsage(tenantId: string, meter: string, quantity: number, { id }: { id: string }): Promise<boolean> {
    if (!Number.isSafeInteger(quantity) || quantity <= 0) {
      throw invalid([{ path: 'quantity', message: 'must be an integer above 0' }])
    }
    parsed(z.string().min(1).max(200), id, 'id')
    parsed(z.string().min(1).max(100), meter, 'meter')
    const used = { meter, quantity, at: this.dependencies.kernel.clock.now() }
    const usageId = usageIdOf(tenantId, meter, id)
    const outbox = joinedOutbox(tenantId)
    if (!outbox) return this.usage.report(tenantId, used, usageId)
    await outbox.post(REPORT_USAGE, { id: usageId, meter, quantity })
    return true
  }

  /** Health check without a request to the provider: `health.register('billing', () => tenancy.billing.check())`. */
  check(): Promise<string | undefined> {
    return this.health.check()
  }

  /** Starts closing usage windows at their intervals, in a worker. */
  async work(): Promise<void> {
    const { kernel, tenants } = this.dependencies
    if (tenants.plans.isDecidedByHost) {
      const payload = {
        tenantId: null,
        reason: 'plan_resolved_by_host' as const,
        subscriptionId: null,
        customerId: null,
      }
      await kernel.events.publish(BillingMisconfigured, payload)
      kernel.log.warn('plans.getPlan decides the plans of tenants, so billing writes no plan')
    }
    await this.windows.start()
  }

  /** After a restore of the backoffice: prevents that usage reported since the dump is reported again. */
  async restored(): Promise<void> {
    await this.windows.markAll()
    await this.usage.holdAll()
  }

  async stop(): Promise<void> {
    await this.windows.stop()
  }

  async #running(tenantId: string) {
    await assertTenantExists(this.dependencies.kernel.database, tenantId)
    const running = (await this.#subscriptions.ofTenant(tenantId)).find((one) => !hasEnded(one))
    if (!running) throw SubscriptionNotFound(`Tenant "${tenantId}" has no running subscription.`)
    return running
  }

  async #record(action: string, tenantId: string, subscriptionId: string, after: Record<string, unknown>) {
    const target = `subscription:${subscriptionId}`
    await recordChange(this.dependencies.kernel.events, { action, tenantId, target, after })
  }

  async #assertMapped(priceId: string): Promise<void> {
    const { payments, plans } = this.dependencies
    if (Object.hasOwn(plans.products, priceId)) return
    const productId = (await payments.productOf(priceId)) ?? null
    if (planOfItems([{ priceId, productId }], plans) === undefined) {
      throw PriceNotMapped(`Neither price "${priceId}" nor its product is in billing.products.`)
    }
  }

  #onlyPriceOf(plan: string): string {
    const prices = Object.entries(this.dependencies.plans.products)
      .filter(([id, name]) => name === plan && id.startsWith('price_'))
      .map(([id]) => id)
    const [only] = prices
    if (only !== undefined && prices.length === 1) return only
    const message =
      prices.length > 1
        ? `must have one price, but several prices are mapped to it (${prices.join(', ')}). Use priceId instead`
        : 'must be the plan of a price in billing.products. Use priceId instead'
    throw invalid([{ path: 'plan', message }])
  }

  /** Replaces a customer that was deleted at the provider without a received event. */
  async #withCustomer<T>(tenantId: string, action: string, call: (customerId: string) => Promise<T>): Promise<T> {
    const customerId = await this.customers.ensure(tenantId, action)
    try {
      return await call(customerId)
    } catch (error) {
      if (
        paymentErrorOf(error).code !== 'provider_rejected' ||
        (await this.dependencies.payments.hasCustomer(customerId))
      )
        throw error
      await this.customers.closeGone(customerId)
      return call(await this.customers.ensure(tenantId, action))
    }
  }

  #callProvider<T>(operation: string, tenantId: string, call: () => Promise<T>): Promise<T> {
    return callProvider(this.dependencies, operation, tenantId, call)
  }
}
