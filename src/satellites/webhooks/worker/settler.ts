/**
 * Settles what was sent, together with whatever else was answered meanwhile. When the database does not answer it is asked again,
 * for as long as the leases last; what is not settled by then is sent once more.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Batcher } from '../../../kernel/base/batcher.ts'
import type { Logger } from '../../../kernel/base/logger.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import type { DeliveryQueue, Settled, Settlement } from '../queue/queue.ts'

const SETTLED_AT_ONCE = 500
const AFTER_FAILURE_MS = 1_000
const LOCK_NOT_AVAILABLE = '55P03'

export interface SettlerOptions {
  readonly log: Logger
  /** How long it is tried. */
  readonly withinMs: number
  /** Aborts when nothing is to be waited for any more. */
  readonly signal: AbortSignal
}

export class Settler {
  readonly #queue: DeliveryQueue
  readonly #options: SettlerOptions
  readonly #batcher: Batcher<Settlement, Settled>

  constructor(queue: DeliveryQueue, options: SettlerOptions) {
    this.#queue = queue
    this.#options = options
    this.#batcher = new Batcher((settlements) => this.#settle(settlements), { maxItems: SETTLED_AT_ONCE })
  }

  /** Rejects when it could not be settled. */
  settle(settlement: Settlement): Promise<Settled> {
    return this.#batcher.add(settlement)
  }

  async #settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const { log, withinMs, signal } = this.#options
    const until = performance.now() + withinMs
    for (;;) {
      try {
        return await this.#queue.settle(settlements)
      } catch (error) {
        log.warn({ err: error }, 'deliveries could not be settled; trying again')
        if (sqlState(error) === LOCK_NOT_AVAILABLE) return this.#apart(settlements)
        if (performance.now() > until || signal.aborted) throw error
        await sleep(AFTER_FAILURE_MS)
      }
    }
  }

  /** Somebody has one of them locked; the others need not wait for that. It is sent again, after its lease. */
  async #apart(settlements: readonly Settlement[]): Promise<Settled[]> {
    if (settlements.length === 1) return [{ isOurs: false, failingSince: null }]
    const half = Math.ceil(settlements.length / 2)
    return [...(await this.#settle(settlements.slice(0, half))), ...(await this.#settle(settlements.slice(half)))]
  }
}
