/**
 * Reports usage to Stripe, and determines whether a failed report may have counted.
 *
 * A report must be one request: the response to the last of several requests does not reveal the result of the earlier
 * ones. Stripe's client repeats a request after a connection reset, so this class counts the requests that left.
 */
import { randomUUID } from 'node:crypto'
import type { Stripe as Client } from 'stripe'
import { paymentErrorOf, type UsageReport } from '../model/provider.ts'
import { UsageNotTaken } from '../provider/usage-not-counted.ts'
import { causeOf } from './errors.ts'

type Call = <T>(call: (client: Client) => Promise<T>) => Promise<T>

export class UsageReports {
  readonly #call: Call
  /** Number of requests that left, by idempotency key. */
  readonly #left = new Map<string, number>()

  constructor(call: Call) {
    this.#call = call
  }

  watch(client: Client): void {
    client.on('request', ({ idempotency_key: key = '' }) => {
      const left = this.#left.get(key)
      if (left !== undefined) this.#left.set(key, left + 1)
    })
  }

  /** Throws `UsageNotTaken` if the report certainly has not counted, otherwise another PaymentError. */
  async send({ id, customerId, meter, quantity, at }: UsageReport): Promise<void> {
    const event = {
      event_name: meter,
      identifier: id,
      timestamp: Math.floor(at.getTime() / 1000),
      payload: { stripe_customer_id: customerId, value: String(quantity) },
    }
    const key = randomUUID()
    let isRejected = false
    this.#left.set(key, 0)
    try {
      await this.#call((client) =>
        client.billing.meterEvents.create(event, { idempotencyKey: key, maxNetworkRetries: 0 }).catch((error) => {
          isRejected = isRejection(error)
          throw error
        }),
      )
    } catch (error) {
      if (causeOf(error)?.isRepeated) return
      const left = this.#left.get(key) ?? 0
      if (left > 1 || (left === 1 && !isRejected)) throw error
      const { code, cause } = paymentErrorOf(error)
      throw new UsageNotTaken(code, { cause })
    } finally {
      this.#left.delete(key)
    }
  }
}

interface Failure {
  readonly statusCode?: number
  /** Cause of a missing response. */
  readonly detail?: Unreached
}

interface Unreached {
  readonly syscall?: string
  /** One for each address that was tried. */
  readonly errors?: readonly Unreached[]
}

/**
 * Whether the provider rejected the request or was not reached. After 408 and 409 an earlier request may still be in
 * progress.
 */
function isRejection({ statusCode, detail }: Failure): boolean {
  if (statusCode === undefined) return isUnreached(detail)
  return statusCode >= 400 && statusCode < 500 && statusCode !== 408 && statusCode !== 409
}

const isUnreached = ({ syscall, errors = [] }: Unreached = {}): boolean =>
  syscall === 'connect' || syscall === 'getaddrinfo' || (errors.length > 0 && errors.every((one) => isUnreached(one)))
