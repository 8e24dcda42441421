/**
 * A developer who listens: a tenant's events go to an address of their own machine for as long as they are there. It is a
 * subscription like any other, but only this process sends for it, and it ends with it; when the process is killed, a minute later.
 */
import { Egress } from '../../kernel/egress.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Courier } from './courier.ts'
import type { Settlement } from './queue.ts'
import type { Subscriptions } from './subscriptions.ts'
import type { Webhooks } from './webhooks.ts'

const RENEW_MS = 15_000

interface Parts {
  readonly kernel: Kernel
  readonly subscriptions: Subscriptions
  readonly webhooks: Webhooks
}

export class Listener {
  readonly secret: string
  readonly #parts: Parts
  readonly #tenantId: string
  readonly #webhookId: string
  readonly #egress: Egress
  readonly #courier: Courier
  readonly #renewal: NodeJS.Timeout
  #heard: (settlement: Settlement) => void = () => undefined

  private constructor(
    parts: Parts,
    tenantId: string,
    url: string,
    { webhookId, secret }: { webhookId: string; secret: string },
  ) {
    this.#parts = parts
    this.#tenantId = tenantId
    this.#webhookId = webhookId
    this.secret = secret
    this.#egress = new Egress({ allowPrivateNetworks: true, allowHttp: true })
    this.#courier = parts.webhooks.courier(this.#egress, { webhookId, url }, (settlement) => this.#heard(settlement))
    this.#renewal = setInterval(() => {
      parts.subscriptions
        .goOnListening(webhookId)
        .catch((error) => parts.kernel.log.warn({ err: error }, 'it could not be said that somebody still listens'))
    }, RENEW_MS)
  }

  /** @param url of the developer's own machine or network: http and private addresses are fine */
  static async open(parts: Parts, tenantId: string, url: string, events: readonly string[]): Promise<Listener> {
    const checking = new Egress({ allowPrivateNetworks: true, allowHttp: true })
    const { href } = checking.check(url)
    await checking.close()
    const subscription = await parts.subscriptions.beginListening(tenantId, events)
    const listener = new Listener(parts, tenantId, href, subscription)
    await listener.#courier.start()
    return listener
  }

  /** @param hear is told of each attempt */
  onAttempt(hear: (settlement: Settlement) => void): void {
    this.#heard = hear
  }

  async close(): Promise<void> {
    clearInterval(this.#renewal)
    await this.#courier.stop()
    await this.#egress.close()
    await this.#parts.subscriptions.delete(this.#tenantId, this.#webhookId)
  }
}
