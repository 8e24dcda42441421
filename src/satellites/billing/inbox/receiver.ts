/**
 * Receives events of the provider: checks sender, size and signature in this order, then stores the event. A job
 * processes the event later.
 */

import { DependencyUnavailable, invalid, SignatureInvalid } from '../../../kernel/base/errors.ts'
import { isAddressAmong } from '../../../kernel/egress/addresses.ts'
import type { Received } from '../../../tenancy/satellite.ts'
import type { BillingDependencies } from '../model/dependencies.ts'
import { AddressNotAllowed } from '../model/errors.ts'
import { type ProviderEvent, paymentErrorOf } from '../model/provider.ts'
import type { Inbox } from './inbox.ts'

export interface Receipt {
  readonly received: true
  /** Present if the event is already known. */
  readonly duplicate?: true
}

export class Receiver {
  readonly #dependencies: BillingDependencies
  readonly #inbox: Inbox

  constructor(dependencies: BillingDependencies, inbox: Inbox) {
    this.#dependencies = dependencies
    this.#inbox = inbox
  }

  /**
   * Throws `E_ADDRESS_NOT_ALLOWED`, the 413 of `body()`, `E_SIGNATURE_INVALID`, a 400, or `E_DEPENDENCY_UNAVAILABLE`,
   * after which the provider sends the event again.
   */
  async receive({ headers, ip, body }: Received): Promise<Receipt> {
    const { allowedIps, trustProxy } = this.#dependencies.settings.webhook
    if (allowedIps && !isAddressAmong(senderOf(headers, ip, trustProxy), allowedIps)) {
      throw AddressNotAllowed('The sender is not in billing.webhook.allowedIps.')
    }
    const event = await this.#verified(await body(), headers.get('stripe-signature') ?? '')
    return (await this.#taken(event)) ? { received: true } : { received: true, duplicate: true }
  }

  async #verified(bytes: Uint8Array, signature: string): Promise<ProviderEvent> {
    let event: ProviderEvent | undefined
    try {
      event = await this.#dependencies.payments.verified(bytes, signature)
    } catch (error) {
      if (paymentErrorOf(error).code !== 'payload_invalid') throw error
      throw invalid([{ path: '', message: 'must be an event of the payment provider' }])
    }
    if (!event)
      throw SignatureInvalid(
        'No secret of billing.stripe.webhookSecret has signed this body within the last 5 minutes.',
      )
    return event
  }

  async #taken(event: ProviderEvent): Promise<boolean> {
    try {
      return await this.#inbox.take(event)
    } catch (cause) {
      const { retryAfterSeconds } = this.#dependencies.kernel.resilience
      throw DependencyUnavailable('The event could not be stored. Send it again.', { retryAfterSeconds, cause })
    }
  }
}

/** The connection's address, or with trusted proxies that entry of `x-forwarded-for`, counted from the end. */
function senderOf(headers: Headers, ip: string | null, trustProxy: number): string {
  if (trustProxy === 0) return ip ?? ''
  const hops = (headers.get('x-forwarded-for') ?? '').split(',').map((hop) => hop.trim())
  return withoutPort(hops.at(-trustProxy) ?? '')
}

/** Removes the port that some proxies add: `192.0.2.1:4444`, `[2001:db8::1]:4444`. */
const withoutPort = (hop: string): string =>
  /^\[([^\]]+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^(\d+(?:\.\d+){3}):\d+$/.exec(hop)?.[1] ?? hop
