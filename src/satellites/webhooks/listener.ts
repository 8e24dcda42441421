/**
 * A developer who listens: a tenant's events go to an address of their own machine for as long as they are there. It is a
 * subscription like any other, but only this process sends for it, what its receiver answers switches nothing off, and it ends with
 * the process: at once where that leaves by itself, a minute later when it is killed.
 */

import { parsed } from '../../kernel/base/validate.ts'
import { Egress } from '../../kernel/egress/egress.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { WebhookNotFound } from './model/errors.ts'
import { EventPatterns } from './model/event-names.ts'
import type { Settlement } from './queue/queue.ts'
import { newSecret, Secret } from './signature/secret.ts'
import type { Subscriptions } from './subscriptions/subscriptions.ts'
import type { DeliveryWorker } from './worker/worker.ts'

const RENEW_MS = 15_000

export interface ListenerDependencies {
  readonly kernel: Kernel
  readonly subscriptions: Subscriptions
  readonly worker: (
    egress: Egress,
    only: { webhookId: string; url: string; onSettled: ListenOptions['onSettled'] },
  ) => DeliveryWorker
}

export interface ListenOptions {
  readonly tenantId: string
  /** Of the developer's own machine or network: http and private addresses are fine. */
  readonly url: string
  /** Default: all. */
  readonly events?: readonly string[]
  /** Absent: a new one. */
  readonly secret?: string | undefined
  /** Is told of each attempt. */
  readonly onSettled: (settlement: Settlement) => void
}

export class Listener {
  readonly webhookId: string
  readonly secret: string
  /** Where to, as it is called. */
  readonly url: string
  readonly #dependencies: ListenerDependencies
  readonly #egress: Egress
  readonly #worker: DeliveryWorker
  readonly #renewal: NodeJS.Timeout
  readonly #gone = Promise.withResolvers<void>()

  private constructor(
    dependencies: ListenerDependencies,
    { webhookId, secret }: { webhookId: string; secret: string },
    { egress, url, onSettled }: { egress: Egress; url: string; onSettled: ListenOptions['onSettled'] },
  ) {
    this.#dependencies = dependencies
    this.webhookId = webhookId
    this.secret = secret
    this.url = url
    this.#egress = egress
    this.#worker = dependencies.worker(egress, { webhookId, url, onSettled })
    this.#renewal = setInterval(() => void this.#renew(), RENEW_MS)
  }

  /** `E_URL_NOT_ALLOWED`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` when it is deleted, or a 400. */
  static async open(
    dependencies: ListenerDependencies,
    { tenantId, url, events = ['*'], secret, onSettled }: ListenOptions,
  ): Promise<Listener> {
    const patterns = parsed(EventPatterns, events, 'events')
    const own = secret === undefined ? newSecret() : parsed(Secret, secret, 'secret')
    const egress = new Egress({ allowPrivateNetworks: true, allowHttp: true }) // to this machine: by no proxy
    let listener: Listener | undefined
    try {
      const { href, origin } = egress.check(url)
      const options = { events: patterns, secret: own, to: origin }
      const made = await dependencies.subscriptions.beginListening(tenantId, options)
      listener = new Listener(dependencies, made, { egress, url: href, onSettled })
      await listener.#worker.start()
      return listener
    } catch (error) {
      await (listener ?? egress).close()
      throw error
    }
  }

  /** Resolves when `signal` aborts; `E_WEBHOOK_NOT_FOUND` when there is nothing to listen to any more. */
  async until(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      else signal.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([aborted, this.#gone.promise])
    if (!signal.aborted)
      throw WebhookNotFound('Its subscription is gone: the tenant was purged, or somebody deleted it.')
  }

  /** Nothing new is made for it, and what is on its way is given up: whoever leaves does not wait for a slow receiver. */
  async close(): Promise<void> {
    clearInterval(this.#renewal)
    try {
      await this.#dependencies.subscriptions.endListening(this.webhookId)
    } finally {
      await Promise.all([this.#worker.stop(), this.#egress.close()])
    }
  }

  async #renew(): Promise<void> {
    try {
      if (!(await this.#dependencies.subscriptions.goOnListening(this.webhookId))) this.#gone.resolve()
    } catch (error) {
      this.#dependencies.kernel.log.warn({ err: error }, 'it could not be said that somebody still listens')
    }
  }
}
