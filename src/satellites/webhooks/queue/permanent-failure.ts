/**
 * Consequences of a permanent failure: disables the subscription and publishes `WebhookDeliveryFailed`.
 *
 *   settle:   one transaction with the settlement, if the receiver is gone or a listener runs within the event
 *   followUp: afterwards, for all other failures, and if `settle` has timed out
 */
import { Batcher } from '../../../kernel/base/batcher.ts'
import { withTimeout } from '../../../kernel/base/with-timeout.ts'
import { LOCK_TIMEOUT_MS } from '../../../kernel/database/lock-retry.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { TEST_EVENT } from '../model/event-names.ts'
import { WebhookDeliveryFailed } from '../model/events.ts'
import { FAILING_FOR_MS } from '../model/subscription.ts'
import { disable } from '../subscriptions/auto-disable.ts'
import { DeliveryQueue, type Settled, type Settlement, TIMEOUT_MS } from './queue.ts'

/** Limit of `settle`. A locked subscription, a slow listener or a lost connection must not use up the lease. */
const SETTLE_TIMEOUT_MS = 2_000
/** Then the server ends the transaction of `settle`, so that it keeps no locks. */
const TRANSACTION_TIMEOUT_MS = SETTLE_TIMEOUT_MS + 1_000
const FOLLOW_UP_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 2_000

/** Limits of a transaction: for a lock; for a statement and for a pause between statements. */
const limits = (lockMs: number, transactionMs: number): string =>
  `select set_config('lock_timeout', '${lockMs}', true), set_config('statement_timeout', '${transactionMs}', true),
    set_config('idle_in_transaction_session_timeout', '${transactionMs}', true)`

const timeoutError = (ms: number) => new Error(`The consequences of a failed delivery took over ${ms} ms`)
const settleTimeout = () => timeoutError(SETTLE_TIMEOUT_MS)

interface Pending {
  readonly settlement: Settlement
  /** Milliseconds of `performance.now()`. */
  readonly until: number
  isAbandoned: boolean
  transaction?: Promise<Settled>
}

export class PermanentFailureHandler {
  readonly #kernel: Kernel
  /** Runs one transaction at a time, so that transactions that wait for locks use one connection of the host. */
  readonly #transactions: Batcher<Pending, Settled | undefined>
  readonly #followUps = new Set<Promise<void>>()
  readonly #followUpTimeoutMs: number
  readonly #aborts = new Set<() => void>()

  constructor(kernel: Kernel, followUpTimeoutMs = FOLLOW_UP_TIMEOUT_MS) {
    this.#kernel = kernel
    this.#followUpTimeoutMs = followUpTimeoutMs
    const run = (pending: Pending) =>
      withTimeout(this.#run(pending), TRANSACTION_TIMEOUT_MS, () => timeoutError(TRANSACTION_TIMEOUT_MS))
    this.#transactions = new Batcher(([pending]) => Promise.all(pending ? [run(pending)] : []), { maxItems: 1 })
  }

  /** Settles a failed delivery together with its consequences. Undefined: not settled, the caller settles it and calls `followUp`. */
  async settle(settlement: Settlement): Promise<Settled | undefined> {
    const { delivery, verdict } = settlement
    const hasListeners = verdict.state === 'failed' && this.#kernel.events.hasHandlersWithin(WebhookDeliveryFailed)
    if (verdict.disables === null && !hasListeners) return undefined
    const pending: Pending = { settlement, until: performance.now() + SETTLE_TIMEOUT_MS, isAbandoned: false }
    const abandon = () => {
      pending.isAbandoned = true
      return settleTimeout()
    }
    try {
      return await withTimeout(this.#transactions.add(pending), SETTLE_TIMEOUT_MS, abandon)
    } catch (error) {
      const { id: deliveryId, webhookId } = delivery
      this.#kernel.log.warn(
        { err: error, deliveryId, webhookId },
        'a failed delivery is settled before its consequences',
      )
      // A transaction that has started keeps the row locked until it is rolled back, or has committed just before.
      const started = pending.transaction?.catch(() => undefined)
      return started && withTimeout(started, TIMEOUT_MS, settleTimeout).catch(() => undefined)
    }
  }

  /** Starts the consequences of a delivery that was settled without them. */
  followUp(settlement: Settlement, settled: Settled): void {
    const work = async () => {
      for (const consequence of this.#consequencesOf(settlement, settled)) {
        await this.#runInTransaction(consequence).catch((error) => {
          const { webhookId } = settlement.delivery
          this.#kernel.log.error({ err: error, webhookId }, 'a consequence of a failed delivery was rolled back')
        })
      }
    }
    const done: Promise<void> = work().finally(() => this.#followUps.delete(done))
    this.#followUps.add(done)
  }

  /** Waits for consequences in progress, and rolls back those that exceed the timeout. */
  async stop(): Promise<void> {
    const timer = setTimeout(() => {
      for (const abort of this.#aborts) abort()
    }, STOP_TIMEOUT_MS)
    await Promise.all([this.#transactions.idle(), ...this.#followUps])
    clearTimeout(timer)
  }

  /** Rolls back at the timeout, so that a listener that does not return keeps no connection. */
  async #runInTransaction(work: () => Promise<unknown>): Promise<void> {
    const { database } = this.#kernel
    const ms = this.#followUpTimeoutMs
    const { promise: aborted, reject } = Promise.withResolvers<never>()
    const abort = () => reject(timeoutError(ms))
    const timer = setTimeout(abort, ms)
    this.#aborts.add(abort)
    try {
      await database.transaction(async () => {
        await database.sql(limits(ms, ms))
        await Promise.race([work(), aborted])
      })
    } finally {
      clearTimeout(timer)
      this.#aborts.delete(abort)
    }
  }

  async #run(pending: Pending): Promise<Settled | undefined> {
    if (pending.isAbandoned) return undefined
    // At the timeout the transaction is rolled back. Later statements of a listener fail.
    pending.transaction = this.#kernel.database.transaction(() =>
      withTimeout(this.#settleWithConsequences(pending), Math.max(0, pending.until - performance.now()), settleTimeout),
    )
    return pending.transaction
  }

  async #settleWithConsequences(pending: Pending): Promise<Settled> {
    const { settlement } = pending
    const { database, clock } = this.#kernel
    await database.sql(limits(LOCK_TIMEOUT_MS, TRANSACTION_TIMEOUT_MS))
    const [settled] = (await new DeliveryQueue(database, clock).settle([settlement])) as [Settled]
    if (!settled.isOurs) return settled
    for (const consequence of this.#consequencesOf(settlement, settled)) await consequence()
    if (pending.isAbandoned) throw settleTimeout()
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
