/**
 * Queues connection requests: one queue for each tenant, bounded in length and time, and served round-robin. So a noisy
 * tenant does not delay the others.
 */
import { ConnectionLimitReached, type ConnectionLimits } from '../../../tenants/isolation/driver.ts'

const RETRY_AFTER_SECONDS = 1

/** A waiting request. */
export interface Waiter<Request, Given> {
  readonly request: Request
  readonly resolve: (given: Given) => void
  readonly reject: (error: unknown) => void
  readonly timer: NodeJS.Timeout
}

export class FairQueue<Request extends { readonly tenantId: string }, Given> {
  readonly #limits: Pick<ConnectionLimits, 'queuePerTenant' | 'waitMs'>
  /** By tenant, in the order in which the queues are served. */
  readonly #queues = new Map<string, Waiter<Request, Given>[]>()

  constructor(limits: Pick<ConnectionLimits, 'queuePerTenant' | 'waitMs'>) {
    this.#limits = limits
  }

  get size(): number {
    let size = 0
    for (const queue of this.#queues.values()) size += queue.length
    return size
  }

  /** Throws `E_TENANT_CONNECTION_LIMIT`: immediately if the queue is full, or at the timeout. */
  async wait(request: Request, waitMs = this.#limits.waitMs): Promise<Given> {
    const { queuePerTenant } = this.#limits
    const queue = this.#queues.get(request.tenantId) ?? []
    if (queue.length >= queuePerTenant) {
      throw limitReached(`Too many statements of this tenant wait for a connection (${queuePerTenant}).`)
    }
    this.#queues.set(request.tenantId, queue)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#leave(waiter)
        reject(limitReached(`No connection became free within ${waitMs} ms.`))
      }, waitMs)
      const waiter = { request, resolve, reject, timer }
      queue.push(waiter)
    })
  }

  /** Returns the next request that `may` be served; of each tenant, only the oldest request is considered. */
  first(may: (request: Request) => boolean): Waiter<Request, Given> | undefined {
    for (const [waiter] of this.#queues.values()) if (waiter && may(waiter.request)) return waiter
    return undefined
  }

  /** Removes a request from its queue, and moves the queue to the end. */
  take(waiter: Waiter<Request, Given>): void {
    const { tenantId } = waiter.request
    clearTimeout(waiter.timer)
    this.#leave(waiter)
    const others = this.#queues.get(tenantId)
    if (!others) return
    this.#queues.delete(tenantId)
    this.#queues.set(tenantId, others)
  }

  rejectAll(error: Error): void {
    for (const queue of this.#queues.values()) {
      for (const { reject, timer } of queue) {
        clearTimeout(timer)
        reject(error)
      }
    }
    this.#queues.clear()
  }

  #leave(waiter: Waiter<Request, Given>): void {
    const { tenantId } = waiter.request
    const queue = this.#queues.get(tenantId)
    const index = queue?.indexOf(waiter) ?? -1
    if (!queue || index < 0) return
    queue.splice(index, 1)
    if (queue.length === 0) this.#queues.delete(tenantId)
  }
}

const limitReached = (words: string) => ConnectionLimitReached(words, { retryAfterSeconds: RETRY_AFTER_SECONDS })
