/**
 * What the provider has, for a transaction that must not wait for it. What is asked for in it, and was not answered yet, ends the
 * transaction; then the provider is asked, and the transaction begins anew. So neither a lock nor a connection is held meanwhile.
 *
 * What was answered of a subscription counts only while nobody has written what is kept of it since before it was asked for; then it is
 * asked for again. So what is written is never older than what is there, by whatever clock. What is asked of the others only comes to
 * be: an invoice that is paid stays so, a customer's tenant is noted once.
 */
import type { BillingPart } from '../model/dependencies.ts'
import type { ProviderInvoice, ProviderSubscription } from '../model/provider.ts'

interface Answer {
  readonly value: unknown
  /** Asked under the locks of the transaction. */
  isCurrent(): boolean | Promise<boolean>
}

class Unanswered extends Error {
  readonly ask: () => Promise<void>

  constructor(what: string, ask: () => Promise<void>) {
    super(`not answered yet: ${what}`)
    this.ask = ask
  }
}

export class Answers {
  readonly #part: BillingPart
  readonly #known = new Map<string, Answer>()

  constructor(part: BillingPart) {
    this.#part = part
  }

  /**
   * Runs `work` until it has all the answers that it wants; what it did before is rolled back. Ask only within it.
   * @param lock takes what keeps others from writing the subscriptions that are asked for
   */
  async transaction<T>(lock: () => Promise<void>, work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await this.#part.kernel.database.transaction(async () => {
          await lock()
          await this.#dropOutdated()
          return await work()
        })
      } catch (error) {
        if (!(error instanceof Unanswered)) throw error
        await error.ask()
      }
    }
  }

  subscription(id: string): ProviderSubscription | undefined {
    return this.#answer(`subscription ${id}`, async () => {
      const version = await this.#versionOf(id)
      const value = await this.#part.payments.subscription(id)
      return { value, isCurrent: async () => (await this.#versionOf(id)) === version }
    })
  }

  invoice(id: string): ProviderInvoice | undefined {
    return this.#answer(`invoice ${id}`, async () => ({
      value: await this.#part.payments.invoice(id),
      isCurrent: () => true,
    }))
  }

  lastPaid(subscriptionId: string): ProviderInvoice | undefined {
    return this.#answer(`last payment of ${subscriptionId}`, async () => ({
      value: await this.#part.payments.lastPaid(subscriptionId),
      isCurrent: () => true,
    }))
  }

  /** The tenant that is noted with a customer. */
  tenantOf(customerId: string): string | undefined {
    return this.#answer(`tenant of ${customerId}`, async () => ({
      value: await this.#part.payments.tenantOf(customerId),
      isCurrent: () => true,
    }))
  }

  #answer<T>(what: string, ask: () => Promise<Answer>): T {
    const answer = this.#known.get(what)
    if (answer) return answer.value as T
    throw new Unanswered(what, async () => void this.#known.set(what, await ask()))
  }

  async #dropOutdated(): Promise<void> {
    for (const [what, answer] of this.#known) if (!(await answer.isCurrent())) this.#known.delete(what)
  }

  /** Another one whenever it was written; undefined while nothing is kept of it. */
  async #versionOf(subscriptionId: string): Promise<string | undefined> {
    const { rows } = await this.#part.kernel.database.sql(
      'select xmin::text as version from multitenancy.billing_subscriptions where id = $1',
      [subscriptionId],
    )
    return rows[0]?.version
  }
}
