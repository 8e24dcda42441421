/**
 * In-flight deliveries of one worker: claimed, not settled. Deliveries to failing and slow receivers have their own queue and a quarter
 * of the capacity, so they do not delay the others.
 *
 *   reserve ──► add: waiting ──► next: sending ──► sent: settling ──► remove
 *                       └──────► takeOut: being released ────────────────┘
 */
import { LRUCache } from 'lru-cache'
import type { Claimed } from '../queue/queue.ts'

export interface InFlightDelivery {
  readonly delivery: Claimed
  /** Start of the request that claimed it, before the lease began: milliseconds of `performance.now()`. */
  readonly requestedAt: number
}

export interface Limits {
  /** Maximum of requests that are sent concurrently. */
  readonly concurrency: number
  /** Maximum of deliveries in flight: the places. */
  readonly claim: number
  /** A receiver is slow if its response takes longer. */
  readonly slowMs: number
}

/** Share of the places and of the requests that failing receivers may use. */
const FAILING_SHARE = 0.25
/** Share of the places that dispatches of this process may use. The rest is for claims. */
const DISPATCH_SHARE = 0.75
/** The worker claims if this share of the places is free, so that one statement returns many deliveries. */
const CLAIM_SHARE = 0.25
const MAX_SLOW_RECEIVERS = 1_000
/** Longer than a claim and the load of its bodies take. */
const CHANGES_KEPT_MS = 10 * 60_000

export class InFlight {
  readonly #limits: Limits
  readonly #maxFailing: number
  #places = 0
  #failingPlaces = 0
  #bytes = 0
  #healthy: InFlightDelivery[] = []
  #failing: InFlightDelivery[] = []
  #sending = 0
  #sendingFailing = 0
  /** Subscriptions whose last request from this process was slow or failed. The database knows only failures of the receiver. */
  readonly #slow = new LRUCache<string, true>({ max: MAX_SLOW_RECEIVERS })
  /** Times of the last changes by subscription, in their order. */
  readonly #changedAt = new Map<string, number>()
  #allChangedAt = Number.NEGATIVE_INFINITY
  #lastChangeAt = Number.NEGATIVE_INFINITY

  constructor(limits: Limits) {
    this.#limits = limits
    this.#maxFailing = Math.ceil(limits.claim * FAILING_SHARE)
  }

  get isEmpty(): boolean {
    return this.#places === 0
  }

  /** Length of all bodies, in characters. */
  get bytes(): number {
    return this.#bytes
  }

  get room(): number {
    return this.#limits.claim - this.#places
  }

  get hasRoomForClaim(): boolean {
    return this.room >= Math.ceil(this.#limits.claim * CLAIM_SHARE)
  }

  get roomForDispatches(): number {
    return Math.floor(this.#limits.claim * DISPATCH_SHARE) - this.#places
  }

  get roomForFailing(): number {
    return Math.max(0, this.#maxFailing - this.#failingPlaces)
  }

  get slowWebhooks(): string[] {
    return [...this.#slow.keys()]
  }

  /** Reserves places for deliveries that have no body yet. A negative count cancels a reservation. */
  reserve(count: number): void {
    this.#places += count
  }

  /** Queues deliveries with their bodies. Takes out those whose subscription has changed since the claim. */
  add(deliveries: readonly Claimed[], requestedAt: number): Claimed[] {
    for (const claimed of deliveries) {
      this.#enqueue({ delivery: this.#slow.has(claimed.webhookId) ? asFailing(claimed) : claimed, requestedAt })
    }
    return requestedAt > this.#lastChangeAt ? [] : this.#takeOutStale()
  }

  /** Starts the request of the delivery that has waited longest; undefined if no request may start. */
  next(): InFlightDelivery | undefined {
    const { concurrency } = this.#limits
    if (this.#sending >= concurrency) return undefined
    const maySendFailing = this.#sendingFailing < concurrency * FAILING_SHARE
    const next = this.#healthy.shift() ?? (maySendFailing ? this.#failing.shift() : undefined)
    if (next) this.#countRequest(next.delivery, 1)
    return next
  }

  sent(delivery: Claimed): void {
    this.#countRequest(delivery, -1)
  }

  /** Removes matching deliveries from the queues. They keep their places until `remove`. */
  takeOut(isMatch: (waiting: InFlightDelivery) => boolean = () => true): Claimed[] {
    const matches = new Set([...this.#healthy, ...this.#failing].filter(isMatch))
    this.#healthy = this.#healthy.filter((waiting) => !matches.has(waiting))
    this.#failing = this.#failing.filter((waiting) => !matches.has(waiting))
    return [...matches].map(({ delivery }) => delivery)
  }

  remove(delivery: Claimed): void {
    this.#countPlace(delivery, -1)
  }

  /** Notes whether a receiver is slow. Takes out the newest waiting deliveries that exceed the places of failing receivers. */
  noteExchange(webhookId: string, exchange: { readonly error: string | null; readonly durationMs: number }): Claimed[] {
    if (exchange.error === null && exchange.durationMs <= this.#limits.slowMs) {
      this.#slow.delete(webhookId)
      return []
    }
    this.#slow.set(webhookId, true)
    const { slow = [], others = [] } = Object.groupBy(this.#healthy, ({ delivery }) =>
      delivery.webhookId === webhookId ? 'slow' : 'others',
    )
    this.#healthy = others
    for (const { delivery, requestedAt } of slow) {
      this.remove(delivery)
      this.#enqueue({ delivery: asFailing(delivery), requestedAt })
    }
    const excess = this.#failingPlaces - this.#maxFailing
    return excess > 0 ? this.#failing.splice(-excess).map(({ delivery }) => delivery) : []
  }

  /**
   * Notes that a subscription has changed. Takes out deliveries that were requested before.
   *
   * @param webhookId undefined after lost notifications: any subscription may have changed
   */
  noteChange(webhookId: string | undefined): Claimed[] {
    const now = performance.now()
    this.#lastChangeAt = now
    if (webhookId === undefined) this.#allChangedAt = now
    else {
      this.#changedAt.delete(webhookId) // a map keeps the order of insertion
      this.#changedAt.set(webhookId, now)
    }
    for (const [id, at] of this.#changedAt) {
      if (at > now - CHANGES_KEPT_MS) break
      this.#changedAt.delete(id)
    }
    return this.#takeOutStale()
  }

  #takeOutStale(): Claimed[] {
    const changedAt = (id: string) => Math.max(this.#allChangedAt, this.#changedAt.get(id) ?? this.#allChangedAt)
    return this.takeOut(({ delivery, requestedAt }) => requestedAt <= changedAt(delivery.webhookId))
  }

  #enqueue(waiting: InFlightDelivery): void {
    this.#countPlace(waiting.delivery, 1)
    if (waiting.delivery.isFailing) this.#failing.push(waiting)
    else this.#healthy.push(waiting)
  }

  #countPlace({ isFailing, body }: Claimed, change: 1 | -1): void {
    this.#places += change
    if (isFailing) this.#failingPlaces += change
    this.#bytes += change * (body?.length ?? 0)
  }

  #countRequest({ isFailing }: Claimed, change: 1 | -1): void {
    this.#sending += change
    if (isFailing) this.#sendingFailing += change
  }
}

const asFailing = (delivery: Claimed): Claimed => ({ ...delivery, isFailing: true })
