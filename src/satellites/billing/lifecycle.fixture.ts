/**
 * Random history of one customer at the provider: all changes of a subscription in any order, also within one second.
 */
import type Stripe from 'stripe'
import type { Provider } from '../../../test/support/provider/provider.ts'
import type { Random } from '../../testing/base/seeded-random.ts'

export interface Surroundings {
  readonly provider: Provider
  readonly stripe: Stripe
  readonly random: Random
  readonly prices: readonly string[]
  /** Starts a checkout of the tenant with a new customer. @param trialDays 0: no trial */
  readonly checkout: (tenantId: string, priceId: string, trialDays: number) => Promise<string>
}

const RUNNING: ReadonlySet<string> = new Set(['active', 'past_due', 'unpaid', 'trialing'])
const ENDED: ReadonlySet<string> = new Set(['canceled', 'incomplete_expired'])

interface Happening {
  readonly weight: number
  readonly run: () => unknown
}

export class CustomerLifecycle {
  readonly tenantId: string
  /** Steps so far, for error messages. */
  readonly history: string[] = []
  #customerId = ''
  #isDeleted = false
  readonly #around: Surroundings

  constructor(tenantId: string, around: Surroundings) {
    this.tenantId = tenantId
    this.#around = around
  }

  async begin(): Promise<void> {
    const { provider, random, checkout } = this.#around
    const trialDays = random.pick([0, 0, 2, 10])
    const isOurs = random.below(3) > 0
    const session = isOurs
      ? await checkout(this.tenantId, this.#price(), trialDays)
      : await this.#link(this.#price(), trialDays)
    const { customer } = provider.completeCheckout(session)
    this.#customerId = customer as string
    this.history.push(`begins${isOurs ? '' : ' by a link'}${trialDays ? ' with a trial' : ''}`)
  }

  async step(): Promise<void> {
    if (this.#isDeleted) return
    const possible = Object.entries(this.#possible())
    const [name, { run }] = this.#around.random.weighted(
      possible.map(([name, happening]) => Object.assign([name, happening] as const, { weight: happening.weight })),
    )
    this.history.push(`${this.#around.provider.now().toISOString()} ${name}`)
    await run()
  }

  /** Removes the customer's objects from the provider. */
  forgotten(): void {
    const { provider } = this.#around
    for (const { id } of [...this.#latest('subscription'), ...this.#latest('invoice')]) provider.forget(id)
    provider.forget(this.#customerId)
    this.#isDeleted = true
    this.history.push('forgotten')
  }

  #possible(): Record<string, Happening> {
    const { provider, random } = this.#around
    const customer = this.#customerId
    const all: Record<string, Happening> = {
      'a good card': { weight: 1, run: () => provider.setPaymentMethod(customer, 'good') },
      'a bad card': { weight: 3, run: () => provider.setPaymentMethod(customer, 'declines') },
      'the customer is deleted': {
        weight: 0.2,
        run: () => {
          provider.deleteCustomer(customer)
          this.#isDeleted = true
        },
      },
    }
    const subscriptions = this.#latest<Stripe.Subscription>('subscription')
    const living = subscriptions.filter(({ status }) => !ENDED.has(status))
    const unpaid = this.#latest<Stripe.Invoice>('invoice').filter(({ status }) => status === 'open')
    if (unpaid.length > 0) {
      const { id } = random.pick(unpaid)
      all['an invoice is paid'] = { weight: 2, run: () => provider.payInvoice(id) }
      all['an invoice fails'] = { weight: 2, run: () => provider.failInvoice(id) }
    }
    if (living.length < 2) {
      const trialDays = random.pick([0, 0, 5])
      const run = () => provider.subscribe(customer, this.#price(), trialDays ? { trialDays } : {})
      all['another subscription'] = { weight: living.length === 0 ? 3 : 0.3, run }
    }
    if (living.length > 0) Object.assign(all, this.#possibleWith(random.pick(living)))
    return all
  }

  #possibleWith({ id, status, pause_collection: pause, cancel_at_period_end: ends }: Stripe.Subscription) {
    const { provider, stripe, random } = this.#around
    const update = (change: Stripe.SubscriptionUpdateParams) => () => stripe.subscriptions.update(id, change)
    const possible: Record<string, Happening> = { canceled: { weight: 0.4, run: () => provider.cancel(id) } }
    if (RUNNING.has(status)) {
      const proration = random.pick(['create_prorations', 'always_invoice', 'none'] as const)
      possible['another price'] = { weight: 3, run: () => provider.changePrice(id, this.#price(), proration) }
      possible['canceled later'] = { weight: 0.7, run: update({ cancel_at_period_end: !ends }) }
      const behavior = random.pick(['void', 'keep_as_draft', 'mark_uncollectible'] as const)
      possible['collection is paused, or not'] = {
        weight: 0.7,
        run: update({ pause_collection: pause ? '' : { behavior } }),
      }
    }
    if (status === 'active' || status === 'past_due') possible.paused = { weight: 1.5, run: () => provider.pause(id) }
    if (status === 'paused') {
      possible.resumed = { weight: 5, run: () => provider.resume(id) }
      const run = () => stripe.subscriptions.resume(id, { payment_behavior: 'resume_on_payment_success' } as never)
      possible['resumed when it is paid'] = { weight: 2, run }
    }
    if (status === 'trialing') possible['the trial has ended'] = { weight: 1, run: update({ trial_end: 'now' }) }
    return possible
  }

  /** Latest state of each object of the customer, from its last event. */
  #latest<T extends { id: string }>(kind: 'subscription' | 'invoice'): T[] {
    const found = new Map<string, T>()
    for (const { data } of this.#around.provider.events) {
      const object = data.object as unknown as T & { object: string; customer?: string }
      if (object.object === kind && object.customer === this.#customerId) found.set(object.id, object)
    }
    return [...found.values()]
  }

  #price(): string {
    return this.#around.random.pick(this.#around.prices)
  }

  /** Checkout from a page of the provider, without a customer; only the session contains the tenant. */
  async #link(priceId: string, trialDays: number): Promise<string> {
    const { id } = await this.#around.stripe.checkout.sessions.create({
      mode: 'subscription',
      client_reference_id: this.tenantId,
      line_items: [{ price: priceId, quantity: 1 }],
      success_url: 'https://app.example/paid',
      ...(trialDays ? { subscription_data: { trial_period_days: trialDays } } : {}),
    })
    return id
  }
}
