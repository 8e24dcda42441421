/**
 * What a delivery worker has in flight: claimed, and not settled yet. Some of it waits to be begun. What goes to receivers that fail at
 * present stands apart: however many of those there are, the others do not wait behind them.
 */

import type { Claimed } from '../queue/queue.ts'
import type { WorkerOptions } from './options.ts'

export interface InFlightDelivery {
  readonly delivery: Claimed
  /** When it was asked for, before its lease began, as `performance.now()` tells time. */
  readonly requestedAt: number
}

/** Of all room and all requests, for receivers that fail at present. */
const SHARE_OF_FAILING = 0.25
/** Of all room, for what is dispatched here. */
const SHARE_OF_DISPATCHES = 0.75
/** Less room than this is not asked for by itself. */
const SHARE_WORTH_FILLING = 0.25

export class InFlight {
  readonly #most: Pick<WorkerOptions, 'claim' | 'concurrency'>
  /** Places that are taken, those that are only promised included. */
  places = 0
  /** Of those, what goes to receivers that fail. */
  failing = 0
  /** Of all bodies. */
  bytes = 0
  #healthy: InFlightDelivery[] = []
  #failing: InFlightDelivery[] = []
  /** Requests on their way. */
  #sending = 0
  #sendingFailing = 0

  constructor(most: Pick<WorkerOptions, 'claim' | 'concurrency'>) {
    this.#most = most
  }

  get room(): number {
    return this.#most.claim - this.places
  }

  get isWorthFilling(): boolean {
    return this.room >= Math.ceil(this.#most.claim * SHARE_WORTH_FILLING)
  }

  /** What waits elsewhere keeps some. */
  get roomForDispatches(): number {
    return Math.floor(this.#most.claim * SHARE_OF_DISPATCHES) - this.places
  }

  get roomForFailing(): number {
    return Math.max(0, Math.ceil(this.#most.claim * SHARE_OF_FAILING) - this.failing)
  }

  add(held: InFlightDelivery): void {
    this.#count(held.delivery, 1)
    if (held.delivery.isFailing) this.#failing.push(held)
    else this.#healthy.push(held)
  }

  /** The one that has waited longest of those that may be begun now. */
  next(): InFlightDelivery | undefined {
    if (this.#sending >= this.#most.concurrency) return undefined
    const mayFail = this.#sendingFailing < this.#most.concurrency * SHARE_OF_FAILING
    return this.#healthy.shift() ?? (mayFail ? this.#failing.shift() : undefined)
  }

  began({ isFailing }: Claimed): void {
    this.#sending += 1
    if (isFailing) this.#sendingFailing += 1
  }

  ended({ isFailing }: Claimed): void {
    this.#sending -= 1
    if (isFailing) this.#sendingFailing -= 1
  }

  /**
   * What waits for this subscription stands with what goes to those that fail from now on. Answers what there is no room for with those,
   * the oldest stay: it has its place until it is removed, and is not begun.
   */
  setApart(webhookId: string): Claimed[] {
    const others = Object.groupBy(this.#healthy, ({ delivery }) =>
      delivery.webhookId === webhookId ? 'apart' : 'good',
    )
    this.#healthy = others.good ?? []
    for (const { delivery, requestedAt } of others.apart ?? []) {
      this.remove(delivery)
      this.add({ delivery: { ...delivery, isFailing: true }, requestedAt })
    }
    const excess = this.failing - Math.ceil(this.#most.claim * SHARE_OF_FAILING)
    return excess > 0 ? this.#failing.splice(-excess).map(({ delivery }) => delivery) : []
  }

  /** What waits and is not to be begun; it still has its place. */
  takeOut(which: (held: InFlightDelivery) => boolean = () => true): Claimed[] {
    const isOut = new Set([...this.#healthy, ...this.#failing].filter(which))
    this.#healthy = this.#healthy.filter((held) => !isOut.has(held))
    this.#failing = this.#failing.filter((held) => !isOut.has(held))
    return [...isOut].map(({ delivery }) => delivery)
  }

  /** Its place is free. */
  remove(delivery: Claimed): void {
    this.#count(delivery, -1)
  }

  #count({ isFailing, body }: Claimed, sign: 1 | -1): void {
    this.places += sign
    if (isFailing) this.failing += sign
    this.bytes += sign * (body?.length ?? 0)
  }
}
