/**
 * Publishes changes of flags to all processes: by a notification that commits with the change, and after the commit through a store
 * that is faster than the database. A change has an id, so its second message is ignored. Keys are omitted if they are too many:
 *
 *   <id> <tenant> [<key> ..]
 *
 * Only the database is reliable: without its notifications `isHearing` is false, regardless of the store.
 */
import { randomUUID } from 'node:crypto'
import type { Listening } from '../../../kernel/database/notifications.ts'
import { Listeners } from '../../../kernel/events/listeners.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { MAX_MESSAGE_BYTES } from '../../../kernel/store/store.ts'

const CHANNEL = 'multitenancy_feature_flags'
const RETRY_MS = 1_000
/** Number of remembered change ids. */
const REMEMBERED = 10_000

/**
 * @param tenantId undefined: changes of any tenant may have been missed
 * @param keys undefined: any flag
 */
export type ChangeListener = (tenantId: string | undefined, keys?: readonly string[]) => void

export class FlagChanges {
  readonly #kernel: Kernel
  readonly #listeners = new Listeners<Parameters<ChangeListener>>()
  readonly #receivedIds = new Set<string>()
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

  /** Starts to listen, once. After a failure, a later call tries again. */
  listen(): void {
    if (this.#ears || this.#isStopped || performance.now() - this.#triedAt < RETRY_MS) return
    this.#triedAt = performance.now()
    const ears = this.#open()
    this.#ears = ears
    ears.catch((error) => {
      this.#ears = undefined
      this.#kernel.log.warn({ err: error }, 'cannot listen to changes of flags yet')
    })
  }

  /**
   * Must run in the transaction of the change.
   *
   * @param keys undefined: any flag of the tenant
   * @param settle runs after the commit, before the message through the store
   */
  async notify(
    tenantId: string,
    keys: readonly string[] | undefined,
    settle: () => Promise<void> = async () => undefined,
  ): Promise<void> {
    const { database, store } = this.#kernel
    const message = messageOf(tenantId, keys)
    await database.notify(CHANNEL, message)
    database.afterCommit(async () => {
      this.#hear(message)
      await settle()
      if (!store.isCache) return
      await store.publish(CHANNEL, message).catch((error) => {
        this.#kernel.log.warn({ err: error, tenantId }, 'a change of flags could not be published through the store')
      })
    })
  }

  /** Returns a function that unsubscribes. */
  subscribe(listener: ChangeListener): () => void {
    return this.#listeners.subscribe(listener)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#listeners.clear()
    const ears = await this.#ears?.catch(() => [])
    await Promise.all(ears?.map((ear) => ear.close()) ?? [])
  }

  async #open(): Promise<readonly Listening[]> {
    const { database, store } = this.#kernel
    const hear = (message: string) => this.#hear(message)
    const ears = [await database.listen(CHANNEL, hear, () => this.#say(undefined))]
    this.#isListening = true
    this.#say(undefined)
    if (!store.isCache) return ears
    try {
      ears.push(await store.subscribe(CHANNEL, hear, () => undefined))
    } catch (error) {
      this.#kernel.log.warn({ err: error }, 'changes of flags are not received through the store')
    }
    return ears
  }

  /** A malformed message may be about any flag. */
  #hear(message: string): void {
    const [id = '', tenantId, ...keys] = message.split(' ')
    if (tenantId === undefined) this.#say(undefined)
    else if (this.#isNews(id)) this.#say(tenantId, keys.length > 0 ? keys : undefined)
  }

  #isNews(id: string): boolean {
    if (this.#receivedIds.has(id)) return false
    this.#receivedIds.add(id)
    const [oldest = ''] = this.#receivedIds
    if (this.#receivedIds.size > REMEMBERED) this.#receivedIds.delete(oldest)
    return true
  }

  #say(tenantId: string | undefined, keys?: readonly string[]): void {
    this.#listeners.emit(tenantId, keys)
  }
}

/** Tenant and key contain neither spaces nor characters outside of ASCII. */
function messageOf(tenantId: string, keys: readonly string[] = []): string {
  const head = `${randomUUID()} ${tenantId}`
  const message = [head, ...keys].join(' ')
  return message.length <= MAX_MESSAGE_BYTES ? message : head
}
