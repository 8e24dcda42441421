/**
 * Billing: the provider's subscriptions as the plans of tenants, and what follows when a payment fails. This is what hosts call; what
 * the provider says comes in by the receiver, and is done by jobs.
 */
import { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { assertTenantExists, assertTenantOpen } from '../../tenants/registry/tenant-assertions.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import { DunningCases } from './dunning/cases.ts'
import { Inbox } from './inbox/inbox.ts'
import { Receiver } from './inbox/receiver.ts'
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
import { Usage } from './usage/usage.ts'
import { UsageWindows } from './usage/windows.ts'
import { Views } from './views.ts'

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
  readonly tenantDeletion: TenantDeletion
  readonly counts = new EventCounts()
  readonly customers: Customers
  readonly dependencies: BillingDependencies
  readonly #subscriptions: Subscriptions

  /** @param verify throws when billing must not be used as it is configured */
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
    if (Object.keys(settings.usage).length > 0 && !kernel.store.sums.outliveProcess) {
      kernel.log.warn('the store ends with the process: usage that was not reported by then is lost')
    }
  }

  /** Throws when the key, the secret or the plans do not fit; it is asked at the start. */
  readonly verify: () => void

  /** What is known of a tenant's billing. `E_TENANT_NOT_FOUND`. */
  async of(tenantId: string): Promise<BillingOfTenant> {
    await assertTenantExists(this.dependencies.kernel.database, tenantId)
    return this.views.of(tenantId)
  }

  /** The tenant's customer at the provider, made when there is none. */
  ensureCustomer(tenantId: string): Promise<string> {
    return this.#callProvider('billing.customer', tenantId, () => this.customers.ensure(tenantId, 'billing.customer'))
  }

  /**
   * Where somebody of the tenant subscribes: send the browser to `url`. `E_PRICE_NOT_MAPPED` for a price that stands for no plan.
   * By `resilience.provider.checkout: 'fail-open'` it is `cancelUrl`, with a null id, while the provider does not answer.
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

  /** Where somebody of the tenant sees invoices and changes means of payment. */
  portal(tenantId: string, options: PortalRequest): Promise<{ url: string }> {
    const { returnUrl } = parsed(PortalRequest, options)
    return this.#callProvider('billing.portal', tenantId, async () => ({
      url: await this.#withCustomer(tenantId, 'billing.portal', (customerId) =>
        this.dependencies.payments.portal(customerId, returnUrl),
      ),
    }))
  }

  /** To another price of the mapping, or the one price of a plan. `E_SUBSCRIPTION_NOT_FOUND` when the tenant has none. */
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
   * Ends the tenant's subscription: at the end of what is paid, or now, with a last invoice over what was used.
   * `E_SUBSCRIPTION_NOT_FOUND` when it has none.
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
   * Reports usage that the host has counted by itself. The same id counts once, however often it is reported. True when it is new.
   * It waits where the tenant has no customer. `E_TENANT_NOT_FOUND`, `E_TENANT_STATE`, or a 400.
   * @param quantity a whole number above 0
   * @param id 1 to 200 characters: a UUID, of which capitals count as small letters, is one of all tenants and meters; any other text one
   * of this tenant and meter
   */
  async reportUsage(tenantId: string, meter: string, quantity: number, { id }: { id: string }): Promise<boolean> {
    if (!Number.isSafeInteger(quantity) || quantity <= 0) {
      throw invalid([{ path: 'quantity', message: 'not a whole number above 0' }])
    }
    parsed(z.string().min(1).max(200), id, 'id')
    parsed(z.string().min(1).max(100), meter, 'meter')
    const used = { meter, quantity, at: this.dependencies.kernel.clock.now() }
    return this.usage.report(tenantId, used, usageIdOf(tenantId, meter, id))
  }

  /** For `health.register('billing', () => tenancy.billing.check())`; it calls nobody. */
  check(): Promise<string | undefined> {
    return this.health.check()
  }

  /** Closes windows of usage by itself, in a worker. */
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
      kernel.log.warn('plans.getPlan decides which plan tenants have: billing writes none')
    }
    await this.windows.start()
  }

  /** The backoffice was brought back from a dump: what was reported since is not reported again. */
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
    if (!running) throw SubscriptionNotFound(`The tenant "${tenantId}" has no subscription that runs.`)
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
      throw PriceNotMapped(`Neither the price ${priceId} nor its product is in billing.products.`)
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
        ? `several prices stand for it (${prices.join(', ')}); name one with priceId`
        : 'no price of billing.products stands for it; name one with priceId'
    throw invalid([{ path: 'plan', message }])
  }

  /** One that was deleted at the provider, of which nothing was heard yet, gives way to a new one. */
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
