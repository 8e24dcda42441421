/**
 * What the provider has, for a transaction that must not wait for it. What is asked for in it, and was not answered yet, ends the
 * transaction; then the provider is asked, and the transaction begins anew. So neither a lock nor a connection is held meanwhile.
 *
 * What was answered of a subscription counts only while nobody has written what is kept of it since before it was asked for; then it is
 * asked for again. So what is written is never older than what is there, by whatever clock. What is asked of the others only comes to
 * be: an invoice that is paid stays so, a customer's tenant is noted once.
 */
import type { BillingDependencies } from '../model/dependencies.ts'
import type { ProviderInvoice, ProviderSubscription } from '../model/provider.ts'

interface LoadedValue {
  readonly value: unknown
  /** Asked under the locks of the transaction. */
  isCurrent(): boolean | Promise<boolean>
}

class NotLoaded extends Error {
  readonly load: () => Promise<void>

  constructor(what: string, load: () => Promise<void>) {
    super(`not answered yet: ${what}`)
    this.load = load
  }
}

export class ProviderReads {
  readonly #dependencies: BillingDependencies
  readonly #known = new Map<string, LoadedValue>()

  constructor(dependencies: BillingDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Runs `work` until everything that it reads is loaded; what it did before is rolled back. Read only within it.
   * @param lock takes what keeps others from writing the subscriptions that are asked for
   */
  async transaction<T>(lock: () => Promise<void>, work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await this.#dependencies.kernel.database.transaction(async () => {
          await lock()
          await this.#dropOutdated()
          return await work()
        })
      } catch (error) {
        if (!(error instanceof NotLoaded)) throw error
        await error.load()
      }
    }
  }

  subscription(id: string): ProviderSubscription | undefined {
    return this.#read(`subscription ${id}`, async () => {
      const version = await this.#versionOf(id)
      const value = await this.#dependencies.payments.subscription(id)
      return { value, isCurrent: async () => (await this.#versionOf(id)) === version }
    })
  }

  invoice(id: string): ProviderInvoice | undefined {
    return this.#read(`invoice ${id}`, async () => ({
      value: await this.#dependencies.payments.invoice(id),
      isCurrent: () => true,
    }))
  }

  lastPaid(subscriptionId: string): ProviderInvoice | undefined {
    return this.#read(`last payment of ${subscriptionId}`, async () => ({
      value: await this.#dependencies.payments.lastPaid(subscriptionId),
      isCurrent: () => true,
    }))
  }

  /** The tenant that is noted with a customer. */
  tenantOf(customerId: string): string | undefined {
    return this.#read(`tenant of ${customerId}`, async () => ({
      value: await this.#dependencies.payments.tenantOf(customerId),
      isCurrent: () => true,
    }))
  }

  #read<T>(what: string, load: () => Promise<LoadedValue>): T {
    const loaded = this.#known.get(what)
    if (loaded) return loaded.value as T
    throw new NotLoaded(what, async () => void this.#known.set(what, await load()))
  }

  async #dropOutdated(): Promise<void> {
    for (const [what, loaded] of this.#known) if (!(await loaded.isCurrent())) this.#known.delete(what)
  }

  /** Another one whenever it was written; undefined while nothing is kept of it. */
  async #versionOf(subscriptionId: string): Promise<string | undefined> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      'select xmin::text as version from multitenancy.billing_subscriptions where id = $1',
      [subscriptionId],
    )
    return rows[0]?.version
  }
}
