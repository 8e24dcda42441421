/**
 * What follows when a delivery has failed for good: its subscription may be switched off, and the host may want to hear of it.
 *
 * - That a receiver is gone, and what the host does _within_ `WebhookDeliveryFailed`, commits together with the delivery's own end:
 *   killed in between, none of it has happened, and it is sent again. Where that cannot be had soon, because somebody has the
 *   subscription locked, a listener takes long or a connection is lost, the delivery is settled like any other, and the rest follows.
 * - Everything else follows afterwards. That a receiver has failed for days, its next failure shows as well. A listener that takes
 *   far too long then is done without, and one that is under way when the process stops.
 */
import { Batcher } from '../../../kernel/base/batcher.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import { LOCK_TIMEOUT_MS } from '../../../kernel/database/lock-retry.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { TEST_EVENT } from '../model/event-names.ts'
import { WebhookDeliveryFailed } from '../model/events.ts'
import { DeliveryQueue, type Settled, type Settlement, TIMEOUT_MS } from '../queue/queue.ts'
import { disable } from '../subscriptions/auto-disable.ts'

const DAY_MS = 86_400_000
/** With nothing but failures for so long a subscription is disabled. */
const FAILING_FOR_MS = 5 * DAY_MS
/** How long a delivery may wait for all to be done in one transaction; its lease goes on. */
const WAIT_TIMEOUT_MS = 2_000
/** A transaction that nobody waits for any more lets go of its rows by then, whatever has become of it. */
const OVER_MS = WAIT_TIMEOUT_MS + 1_000
/** How long what follows a settled delivery may take. */
const FOLLOWS_WITHIN_MS = 30_000
/** How long it may take to end when this stops. */
const STOP_MS = 2_000

/** Of a transaction, for a lock, and for a statement and a connection that is lost. */
const limits = (lockMs: number, overMs: number): string =>
  `select set_config('lock_timeout', '${lockMs}', true), set_config('statement_timeout', '${overMs}', true),
    set_config('idle_in_transaction_session_timeout', '${overMs}', true)`

const lateAfter = (ms: number) => new Error(`it was not done within ${ms} ms`)
const late = () => lateAfter(WAIT_TIMEOUT_MS)

interface Pending {
  readonly settlement: Settlement
  /** As `performance.now()` tells time. */
  readonly until: number
  isAbandoned: boolean
  /** Once its turn has come. */
  transaction?: Promise<Settled>
}

export class PermanentFailureHandler {
  readonly #kernel: Kernel
  /** One after the other: what waits for a lock here keeps one of the host's connections, not all. */
  readonly #ends: Batcher<Pending, Settled | undefined>
  readonly #following = new Set<Promise<void>>()
  readonly #followsWithinMs: number
  readonly #abandons = new Set<() => void>()

  constructor(kernel: Kernel, followsWithinMs = FOLLOWS_WITHIN_MS) {
    this.#kernel = kernel
    this.#followsWithinMs = followsWithinMs
    this.#ends = new Batcher(async ([pending]) => [pending && (await withTimeout(this.#end(pending), OVER_MS, late))], {
      maxItems: 1,
    })
  }

  /** Settles it with what follows, where something follows that must not be lost. Undefined: it is not settled. */
  async end(settlement: Settlement): Promise<Settled | undefined> {
    const { delivery, verdict } = settlement
    const isJoined = verdict.state === 'failed' && this.#kernel.events.hasHandlersWithin(WebhookDeliveryFailed)
    if (verdict.disables === null && !isJoined) return undefined
    const pending: Pending = { settlement, until: performance.now() + WAIT_TIMEOUT_MS, isAbandoned: false }
    const abandon = () => {
      pending.isAbandoned = true
      return late()
    }
    try {
      return await withTimeout(this.#ends.add(pending), WAIT_TIMEOUT_MS, abandon)
    } catch (error) {
      const { id: deliveryId, webhookId } = delivery
      this.#kernel.log.warn({ err: error, deliveryId, webhookId }, 'a delivery is settled before what follows from it')
      // It has the row, and takes back what it has done, unless it was done a moment before.
      const started = pending.transaction?.catch(() => undefined)
      return started && withTimeout(started, TIMEOUT_MS, late).catch(() => undefined)
    }
  }

  /** After it was settled by itself. */
  follow(settlement: Settlement, settled: Settled): void {
    const following = async () => {
      for (const consequence of this.#consequencesOf(settlement, settled)) {
        await this.#withTimeout(consequence).catch((error) => {
          const { webhookId } = settlement.delivery
          this.#kernel.log.error({ err: error, webhookId }, 'what follows a failed delivery could not be done')
        })
      }
    }
    const done: Promise<void> = following().finally(() => this.#following.delete(done))
    this.#following.add(done)
  }

  /** Resolves when nothing is under way any more; what takes too long is given up. */
  async stop(): Promise<void> {
    const timer = setTimeout(() => {
      for (const abandon of this.#abandons) abandon()
    }, STOP_MS)
    await Promise.all([this.#ends.idle(), ...this.#following])
    clearTimeout(timer)
  }

  /** A listener that does not end keeps neither its transaction nor the connection. */
  async #withTimeout(work: () => Promise<unknown>): Promise<void> {
    const { database } = this.#kernel
    const ms = this.#followsWithinMs
    const { promise: abandoned, reject } = Promise.withResolvers<never>()
    const abandon = () => reject(lateAfter(ms))
    const timer = setTimeout(abandon, ms)
    this.#abandons.add(abandon)
    try {
      await database.transaction(async () => {
        await database.sql(limits(ms, ms))
        await Promise.race([work(), abandoned])
      })
    } finally {
      clearTimeout(timer)
      this.#abandons.delete(abandon)
    }
  }

  async #end(pending: Pending): Promise<Settled | undefined> {
    if (pending.isAbandoned) return undefined
    // What a listener does later than that meets a transaction that is over; it holds neither its rows nor its connection.
    pending.transaction = this.#kernel.database.transaction(() =>
      withTimeout(this.#settle(pending), Math.max(0, pending.until - performance.now()), late),
    )
    return pending.transaction
  }

  async #settle(pending: Pending): Promise<Settled> {
    const { settlement } = pending
    const { database, clock } = this.#kernel
    await database.sql(limits(LOCK_TIMEOUT_MS, OVER_MS))
    const [settled] = (await new DeliveryQueue(database, clock).settle([settlement])) as [Settled]
    if (!settled.isOurs) return settled
    for (const consequence of this.#consequencesOf(settlement, settled)) await consequence()
    if (pending.isAbandoned) throw late()
    return settled
  }

  #consequencesOf(settlement: Settlement, { failingSince }: Settled): (() => Promise<unknown>)[] {
    const { delivery, verdict, status, isBlamed } = settlement
    if (verdict.state !== 'failed') return []
    const { events, clock } = this.#kernel
    const { id: deliveryId, webhookId, tenantId, event, url, generation, attemptCount } = delivery
    const failedForMs = failingSince ? clock.now().getTime() - failingSince.getTime() : 0
    const isFailing = isBlamed && event !== TEST_EVENT && failedForMs >= FAILING_FOR_MS
    const reason = verdict.disables ?? (isFailing ? 'failing' : null)
    const seen = { url, generation, failingSince }
    const details = { tenantId, webhookId, deliveryId, event, attemptCount: attemptCount + 1, lastStatus: status }
    return [
      ...(reason ? [() => disable(this.#kernel, webhookId, { ...seen, reason })] : []),
      ...(events.hasHandlers(WebhookDeliveryFailed) ? [() => events.publish(WebhookDeliveryFailed, details)] : []),
    ]
  }
}
