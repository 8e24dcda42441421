/** Creates delivery workers of one process. They share decrypted secrets and consequences of failures. */
import { LRUCache } from 'lru-cache'
import type { Database } from '../../../kernel/database/database.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import type { Options } from '../model/options.ts'
import { PermanentFailureHandler } from '../queue/permanent-failure.ts'
import { type Claimed, DeliveryQueue, type Settlement } from '../queue/queue.ts'
import { ReleasedClaims } from '../queue/released-claims.ts'
import type { Subscriptions } from '../subscriptions/subscriptions.ts'
import { DEFAULT_TIMING, DeliveryWorker, type WorkerOptions, type WorkerTiming } from './worker.ts'

const MAX_CACHED_SECRETS = 1_000

export class WorkerFactory {
  readonly #kernel: Kernel
  readonly #own: Database
  readonly #subscriptions: Subscriptions
  readonly #count: (settlement: Settlement) => void
  readonly #options: Options
  readonly #permanentFailures: PermanentFailureHandler
  readonly #decryptedSecrets = new LRUCache<string, readonly string[]>({ max: MAX_CACHED_SECRETS })
  readonly #listeners = new Set<() => void>()

  /** @param own connections for claims and settlements @param count called for each result, except those of listeners */
  constructor(
    kernel: Kernel,
    own: Database,
    subscriptions: Subscriptions,
    options: Options,
    count: (settlement: Settlement) => void,
  ) {
    this.#kernel = kernel
    this.#own = own
    this.#subscriptions = subscriptions
    this.#count = count
    this.#options = options
    this.#permanentFailures = new PermanentFailureHandler(kernel)
  }

  /** Waits for the consequences of permanent failures. Stop the workers first. */
  stop(): Promise<void> {
    return this.#permanentFailures.stop()
  }

  /** Calls `listener` after each request, except those of listeners. Returns a function that removes it. */
  onSettled(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /**
   * Creates a worker, which its caller starts and stops. With a listener it sends only for that subscription, and permanent failures
   * have no consequences. Tests set the timing.
   */
  create(
    egress: Kernel['egress'],
    listener?: WorkerOptions['listener'] & { readonly onSettled: (settlement: Settlement) => void },
    timing: Partial<WorkerTiming> = {},
  ): DeliveryWorker {
    const [kernel, own] = [this.#kernel, this.#own]
    return new DeliveryWorker(
      {
        kernel,
        queue: new DeliveryQueue(own, kernel.clock),
        releasedClaims: new ReleasedClaims(own, kernel),
        egress,
        ...(listener ? {} : { permanentFailures: this.#permanentFailures }),
        secretsOf: (delivery) => this.#secretsOf(delivery),
        onSettled: (settlement, { isOurs }) => {
          if (!listener) this.#noteSettled(settlement, isOurs)
          else if (isOurs) listener.onSettled(settlement)
        },
      },
      { ...DEFAULT_TIMING, ...this.#options, ...timing, ...(listener ? { listener } : {}) },
    )
  }

  #secretsOf({ webhookId, secret, previousSecret, previousUntil }: Claimed): readonly string[] {
    const isRotating = previousUntil !== null && previousUntil > this.#kernel.clock.now()
    const key = isRotating ? `${secret} ${previousSecret}` : secret
    const cached = this.#decryptedSecrets.get(key)
    if (cached) return cached
    const decrypted = this.#subscriptions.decryptSecrets({ id: webhookId, secret, previousSecret, previousUntil })
    this.#decryptedSecrets.set(key, decrypted)
    return decrypted
  }

  #noteSettled(settlement: Settlement, isOurs: boolean): void {
    if (isOurs) this.#count(settlement)
    for (const onSent of this.#listeners) onSent()
  }
}
