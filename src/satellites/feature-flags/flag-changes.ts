/**
 * How every process hears that a tenant's flags have changed: by a notification that commits with the change, and by the store
 * after the commit, where the store is quicker than the database. Either is enough; the message is the tenant's id.
 *
 * Only the database is counted on: while its notifications are not heard, `isHearing` is false, whatever the store says.
 */
import type { Kernel } from '../../kernel/kernel.ts'
import type { Listening } from '../../kernel/notifications.ts'

const CHANNEL = 'multitenancy_feature_flags'
const RETRY_MS = 1_000

/** Undefined: changes of any tenant may have been missed. */
export type ChangeListener = (tenantId: string | undefined) => void

export class FlagChanges {
  readonly #kernel: Kernel
  readonly #listeners = new Set<ChangeListener>()
  #ears: Promise<readonly Listening[]> | undefined
  #isListening = false
  #triedAt = Number.NEGATIVE_INFINITY
  #isStopped = false

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  get isHearing(): boolean {
    return this.#isListening && this.#kernel.database.isListening
  }

  /** Begins to hear, unless it does already; a try that fails is followed by another call's, a second later. */
  listen(): void {
    if (this.#ears || this.#isStopped || performance.now() - this.#triedAt < RETRY_MS) return
    this.#triedAt = performance.now()
    const ears = this.#open()
    this.#ears = ears
    ears.catch((error) => {
      this.#ears = undefined
      this.#kernel.log.warn({ err: error }, 'changes of flags cannot be heard yet')
    })
  }

  /** Call it in the transaction of the change. @param settle is done after the commit, before the store tells others */
  async tell(tenantId: string, settle: () => Promise<void> = async () => undefined): Promise<void> {
    const { database, store } = this.#kernel
    await database.notify(CHANNEL, tenantId)
    database.afterCommit(async () => {
      this.#heard(tenantId)
      await settle()
      if (!store.isCache) return
      await store.publish(CHANNEL, tenantId).catch((error) => {
        this.#kernel.log.warn({ err: error, tenantId }, 'that flags have changed was not told by way of the store')
      })
    })
  }

  /** Returns a function that ends it. */
  subscribe(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#listeners.clear()
    const ears = await this.#ears?.catch(() => [])
    await Promise.all(ears?.map((ear) => ear.close()) ?? [])
  }

  async #open(): Promise<readonly Listening[]> {
    const { database, store } = this.#kernel
    const heard = (tenantId: string) => this.#heard(tenantId)
    const ears = [await database.listen(CHANNEL, heard, () => this.#heard(undefined))]
    this.#isListening = true
    this.#heard(undefined)
    if (!store.isCache) return ears
    try {
      ears.push(await store.subscribe(CHANNEL, heard, () => undefined))
    } catch (error) {
      this.#kernel.log.warn({ err: error }, 'changes of flags are not heard by way of the store')
    }
    return ears
  }

  #heard(tenantId: string | undefined): void {
    for (const listener of this.#listeners) listener(tenantId)
  }
}
