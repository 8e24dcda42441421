/**
 * Usage as it is reported to Stripe, and whether a report that has failed may count all the same.
 *
 * A report is one request: of several, the last answer would not say what became of those before. Stripe's client sends one again
 * nevertheless when its connection was reset, so requests are counted as they leave.
 */
import { randomUUID } from 'node:crypto'
import type { Stripe as Client } from 'stripe'
import { paymentErrorOf, type UsageReport } from '../model/provider.ts'
import { UsageNotTaken } from '../provider/usage-not-counted.ts'
import { causeOf } from './errors.ts'

type Call = <T>(call: (client: Client) => Promise<T>) => Promise<T>

export class UsageReports {
  readonly #call: Call
  /** How many requests have left, by their key. */
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

  /** Throws `UsageNotTaken` where it is certain, else another PaymentsFault. */
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
  /** Why there was no answer. */
  readonly detail?: Unreached
}

interface Unreached {
  readonly syscall?: string
  /** Of each address that was tried. */
  readonly errors?: readonly Unreached[]
}

/** Whether a request was answered with a refusal, or had nobody to go to. With 408 and 409 it may be at work for another one. */
function isRejection({ statusCode, detail }: Failure): boolean {
  if (statusCode === undefined) return isUnreached(detail)
  return statusCode >= 400 && statusCode < 500 && statusCode !== 408 && statusCode !== 409
}

const isUnreached = ({ syscall, errors = [] }: Unreached = {}): boolean =>
  syscall === 'connect' || syscall === 'getaddrinfo' || (errors.length > 0 && errors.every((one) => isUnreached(one)))
