/**
 * Reads the state at the provider for a transaction that must not wait for the provider. A read that is not loaded yet
 * rolls back the transaction; the value is loaded; the transaction starts again. So no lock and no connection is held
 * during a request.
 *
 * - A loaded subscription is valid while its row is unchanged since before the request. Otherwise it is loaded again,
 *   so no older state is written over a newer one, independent of clocks.
 * - Other values need no check because they change in one direction only: a paid invoice stays paid, a customer's
 *   tenant is set once.
 */
import type { BillingDependencies } from '../model/dependencies.ts'
import type { ProviderInvoice, ProviderSubscription } from '../model/provider.ts'

interface LoadedValue {
  readonly value: unknown
  /** Called under the locks of the transaction. */
  isCurrent(): boolean | Promise<boolean>
}

class NotLoaded extends Error {
  readonly load: () => Promise<void>

  constructor(what: string, load: () => Promise<void>) {
    super(`not loaded yet: ${what}`)
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
   * Runs `work` until all its reads are loaded; earlier runs are rolled back. Reads are valid only within `work`.
   * @param lock keeps other transactions from writing the subscriptions that `work` reads
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

  /** Tenant id in the metadata of a customer. */
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

  /** Differs after each write; undefined if no row exists. */
  async #versionOf(subscriptionId: string): Promise<string | undefined> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      'select xmin::text as version from multitenancy.billing_subscriptions where id = $1',
      [subscriptionId],
    )
    return rows[0]?.version
  }
}
