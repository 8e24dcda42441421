/**
 * Forwards the events of a tenant to a URL of the developer's machine, through a temporary subscription. Only this process sends for
 * it, and failures do not disable it. It ends at `close`, or a minute after the process has crashed.
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
  /** Receives the events. http and private addresses are allowed. */
  readonly url: string
  /** Names or patterns; default `*`. */
  readonly events?: readonly string[]
  /** Default: a generated secret. */
  readonly secret?: string | undefined
  /** Called after each attempt. */
  readonly onSettled: (settlement: Settlement) => void
}

export class Listener {
  readonly webhookId: string
  readonly secret: string
  /** Normalised URL. */
  readonly url: string
  readonly #dependencies: ListenerDependencies
  readonly #egress: Egress
  readonly #worker: DeliveryWorker
  readonly #renewal: NodeJS.Timeout
  readonly #deleted = Promise.withResolvers<void>()

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

  /** @throws `E_URL_NOT_ALLOWED`, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` for a deleted tenant, `E_INVALID_REQUEST` */
  static async open(
    dependencies: ListenerDependencies,
    { tenantId, url, events = ['*'], secret, onSettled }: ListenOptions,
  ): Promise<Listener> {
    const patterns = parsed(EventPatterns, events, 'events')
    const own = secret === undefined ? newSecret() : parsed(Secret, secret, 'secret')
    const egress = new Egress({ allowPrivateNetworks: true, allowHttp: true }) // no proxy for this machine
    let listener: Listener | undefined
    try {
      const { href, origin } = egress.check(url)
      const options = { events: patterns, secret: own, to: origin }
      const made = await dependencies.subscriptions.startListening(tenantId, options)
      listener = new Listener(dependencies, made, { egress, url: href, onSettled })
      await listener.#worker.start()
      return listener
    } catch (error) {
      await (listener ?? egress).close()
      throw error
    }
  }

  /** Waits until `signal` aborts. @throws `E_WEBHOOK_NOT_FOUND` when the subscription was deleted */
  async until(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      else signal.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([aborted, this.#deleted.promise])
    if (!signal.aborted)
      throw WebhookNotFound('The subscription of the listener was deleted, or its tenant was purged. Listen again.')
  }

  /** Deletes the subscription and aborts requests in progress, without waiting for slow receivers. */
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
      if (!(await this.#dependencies.subscriptions.renewListening(this.webhookId))) this.#deleted.resolve()
    } catch (error) {
      this.#dependencies.kernel.log.warn({ err: error }, 'the lease of a webhook listener was not renewed; retrying')
    }
  }
}
