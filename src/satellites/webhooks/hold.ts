/**
 * What a courier has in hand: claimed, and not settled yet. Some of it waits to be begun. What goes to receivers that fail at
 * present stands apart: however many of those there are, the others do not wait behind them.
 */
import type { Claimed } from './queue.ts'

export interface Held {
  readonly delivery: Claimed
  /** As `performance.now()` tells time. */
  readonly leaseEndsAt: number
}

export class Hold {
  /** Places that are taken, those that are only promised included. */
  places = 0
  /** Of those, what goes to receivers that fail. */
  failing = 0
  /** Of all bodies. */
  bytes = 0
  #good: Held[] = []
  #bad: Held[] = []

  add(held: Held): void {
    this.#count(held.delivery, 1)
    if (held.delivery.isFailing) this.#bad.push(held)
    else this.#good.push(held)
  }

  /** The one that has waited longest. @param mayFail whether there is room for one that fails */
  next(mayFail: boolean): Held | undefined {
    return this.#good.shift() ?? (mayFail ? this.#bad.shift() : undefined)
  }

  /** What waits and is not to be begun; it still has its place. */
  takeOut(which: (held: Held) => boolean = () => true): Claimed[] {
    const isOut = new Set([...this.#good, ...this.#bad].filter(which))
    this.#good = this.#good.filter((held) => !isOut.has(held))
    this.#bad = this.#bad.filter((held) => !isOut.has(held))
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
