/**
 * Claims due deliveries, sends them and settles the results. Each process runs one worker.
 *
 *   claim ──► load ──► send ──► settle ──► follow up
 *               └──► release: late or stale, or the worker stops
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Batcher } from '../../../kernel/base/batcher.ts'
import { asSystem } from '../../../kernel/base/context.ts'
import { sqlState } from '../../../kernel/database/database.ts'
import type { Listening } from '../../../kernel/database/notifications.ts'
import type { Egress } from '../../../kernel/egress/egress.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { SECRET_UNREADABLE, verdictOn } from '../model/delivery.ts'
import { type Exchange, exchangeOf, notSent, requestFor } from '../model/request.ts'
import type { PermanentFailureHandler } from '../queue/permanent-failure.ts'
import type { Claimed, DeliveryQueue, Offer, Settled, Settlement } from '../queue/queue.ts'
import type { ReleasedClaims } from '../queue/released-claims.ts'
import { CHANNEL } from '../sql/functions.ts'
import { Claimer, type ClaimRules } from './claim.ts'
import { inDeliverySpan } from './delivery-span.ts'
import { InFlight, type InFlightDelivery, type Limits } from './in-flight.ts'

/** Request timeouts in a lease, in addition to its margin. A settlement is retried for as long. */
const LEASE_TIMEOUTS = 3
/** Time between the end of a request and the end of its lease. */
const LEASE_MARGIN_MS = 3_000
const SETTLE_PAUSE_MS = 1_000
const MAX_SETTLEMENTS = 500
const LOCK_NOT_AVAILABLE = '55P03'
/** Time for another process to send the delivery, or for the operator to add the missing key. */
const NO_KEY_PAUSE_MS = 60_000
/** Time for the database, after the last request has ended. */
const STOP_MARGIN_MS = 2_000

/** Intervals of a worker. Tests shorten them. */
export interface WorkerTiming extends Pick<ClaimRules, 'pollMs'>, Pick<Limits, 'slowMs'> {
  /** Time for requests to end when the worker stops. */
  readonly stopMs: number
}

export const DEFAULT_TIMING: WorkerTiming = { pollMs: 5_000, slowMs: 2_000, stopMs: 4_000 }

export interface WorkerOptions extends ClaimRules, Limits, WorkerTiming {
  readonly timeoutMs: number
  readonly maxAttempts: number
}

export interface WorkerDependencies {
  readonly kernel: Kernel
  readonly queue: DeliveryQueue
  readonly releasedClaims: ReleasedClaims
  readonly egress: Egress
  /** Absent: a permanent failure has no consequences. */
  readonly permanentFailures?: PermanentFailureHandler
  secretsOf(delivery: Claimed): readonly string[]
  onSettled(settlement: Settlement, settled: Settled): void
}

export class DeliveryWorker {
  readonly #dependencies: WorkerDependencies
  readonly #options: WorkerOptions
  readonly #leaseMs: number
  readonly #inFlight: InFlight
  readonly #claimer: Claimer
  readonly #settlements: Batcher<Settlement, Settled>
  readonly #abort = new AbortController()
  #listening: Listening | undefined
  #poll: NodeJS.Timeout | undefined
  /** One for `start`, one for each `pass` in progress. */
  #activations = 0
  #isStopped = false
  #requestCount = 0
  #idleWaiters: (() => void)[] = []

  constructor(dependencies: WorkerDependencies, options: WorkerOptions) {
    const { kernel, queue, releasedClaims } = dependencies
    this.#dependencies = dependencies
    this.#options = options
    this.#leaseMs = LEASE_TIMEOUTS * options.timeoutMs + LEASE_MARGIN_MS
    this.#inFlight = new InFlight(options)
    this.#settlements = new Batcher((batch) => this.#settleBatch(batch), { maxItems: MAX_SETTLEMENTS })
    this.#claimer = new Claimer({
      queue,
      releasedClaims,
      log: kernel.log,
      inFlight: this.#inFlight,
      rules: options,
      leaseMs: this.#leaseMs,
      isRunning: () => this.#isRunning,
      onLoaded: (deliveries, requestedAt) => this.#accept(deliveries, requestedAt),
      onEnd: () => this.#reportIdle(),
    })
  }

  async start(): Promise<void> {
    this.#activations += 1
    this.#poll = setInterval(() => this.wake(), this.#options.pollMs).unref()
    const onNotification = (text?: string) => asSystem(() => this.#handleNotification(text))
    this.#listening = await this.#dependencies.kernel.database.listen(CHANNEL, onNotification, onNotification)
    this.wake()
  }

  /** Call it when due deliveries may exist. */
  wake(): void {
    if (!this.#isRunning) return
    this.#claimer.wake()
    asSystem(() => this.#proceed())
  }

  /** Reserves places for a dispatch that claims its own deliveries; undefined if it must not. */
  async offer(): Promise<Offer | undefined> {
    await this.#dependencies.queue.betweenClaims() // a dispatch during a claim cannot claim
    const wanted = this.#inFlight.roomForDispatches
    if (!this.#isRunning || this.#options.listener || wanted < 1) return undefined
    this.#inFlight.reserve(wanted)
    return { ...this.#claimer.newClaim(), wanted, madeAt: performance.now() }
  }

  /** Accepts the deliveries that a dispatch has claimed for an offer. */
  take({ wanted, madeAt }: Offer, deliveries: readonly Claimed[]): void {
    const end = () => {
      this.#inFlight.reserve(-wanted)
      this.#proceed()
    }
    if (!this.#isRunning) return void this.#dependencies.releasedClaims.release(deliveries).then(end)
    this.#accept(deliveries, madeAt)
    end()
  }

  /** Sends due deliveries until none are left. Returns the number of requests; throws the error of the last claim. */
  async pass(signal?: AbortSignal): Promise<number> {
    const before = this.#requestCount
    this.#activations += 1
    this.wake()
    await this.#untilIdle(signal)
    this.#activations -= 1
    if (!this.#isRunning) await asSystem(() => this.#release(this.#inFlight.takeOut()))
    if (this.#claimer.failure !== undefined) throw this.#claimer.failure
    return this.#requestCount - before
  }

  /** Releases waiting deliveries, and waits for requests in progress until the deadline. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#poll)
    await this.#listening?.close()
    const timer = setTimeout(() => this.#abort.abort(), this.#options.stopMs)
    const end = async () => {
      await this.#claimer.stop()
      await this.#release(this.#inFlight.takeOut())
      await this.#untilIdle()
    }
    // If the database does not respond by then, the leases expire.
    await Promise.race([end(), sleep(this.#options.stopMs + STOP_MARGIN_MS, undefined, { ref: false })])
    clearTimeout(timer)
  }

  get #isRunning(): boolean {
    return this.#activations > 0 && !this.#isStopped
  }

  /** @param text a changed subscription; `''`: new deliveries; undefined: notifications may have been lost */
  #handleNotification(text: string | undefined): void {
    if (!text) this.wake()
    if (text !== '') void this.#release(this.#inFlight.noteChange(text))
  }

  #proceed(): void {
    this.#sendWaiting()
    this.#claimer.run()
    this.#reportIdle()
  }

  #accept(deliveries: readonly Claimed[], requestedAt: number): void {
    void this.#release(this.#inFlight.add(deliveries, requestedAt))
    if (this.#isRunning) this.#sendWaiting()
    else void this.#release(this.#inFlight.takeOut())
  }

  async #release(deliveries: readonly Claimed[]): Promise<void> {
    if (deliveries.length === 0) return
    await this.#dependencies.releasedClaims.release(deliveries)
    for (const delivery of deliveries) this.#inFlight.remove(delivery)
    this.#claimer.wake()
    this.#proceed()
  }

  /** Starts requests while places for requests are free. A request starts only if its lease lasts longer than its timeout. */
  #sendWaiting(): void {
    const isLate = ({ requestedAt }: InFlightDelivery) =>
      performance.now() + this.#options.timeoutMs + LEASE_MARGIN_MS > requestedAt + this.#leaseMs
    while (this.#isRunning) {
      const next = this.#inFlight.next()
      if (!next) return
      if (isLate(next)) {
        this.#inFlight.sent(next.delivery)
        void this.#release([next.delivery, ...this.#inFlight.takeOut(isLate)])
      } else void this.#deliver(next.delivery)
    }
  }

  async #deliver(delivery: Claimed): Promise<void> {
    const { kernel, releasedClaims } = this.#dependencies
    try {
      const startedMs = kernel.clock.now().getTime()
      const exchange = await inDeliverySpan(kernel.tracing, delivery, (traceparent) =>
        this.#send(delivery, startedMs, traceparent),
      ).finally(() => this.#inFlight.sent(delivery))
      if (exchange) void this.#release(this.#inFlight.noteExchange(delivery.webhookId, exchange))
      this.#sendWaiting()
      if (exchange?.isAborted) await releasedClaims.abort({ delivery, startedMs, ...exchange })
      else if (exchange) await this.#settle(delivery, startedMs, exchange)
    } catch (error) {
      kernel.log.error({ err: error, deliveryId: delivery.id }, 'a webhook delivery was not settled; its lease expires')
    } finally {
      this.#claimer.noteSettled(delivery)
      this.#inFlight.remove(delivery)
      this.#proceed()
    }
  }

  /** Undefined: this process cannot decrypt the secret, and the delivery is postponed. */
  async #send(delivery: Claimed, nowMs: number, traceparent: string | undefined): Promise<Exchange | undefined> {
    const { kernel, egress, releasedClaims, secretsOf } = this.#dependencies
    const { timeoutMs, listener } = this.#options
    const { body } = delivery
    if (body === null) return notSent('its body is past its retention')
    let secrets: readonly string[]
    try {
      secrets = secretsOf(delivery)
    } catch (error) {
      kernel.log.error(
        { err: error, webhookId: delivery.webhookId },
        'cannot decrypt the secret of a webhook subscription; the delivery is postponed',
      )
      await releasedClaims.postpone(delivery, SECRET_UNREADABLE, NO_KEY_PAUSE_MS)
      return undefined
    }
    const url = listener?.url ?? delivery.url
    const request = requestFor(delivery, { body, url, secrets, nowMs, traceparent })
    return exchangeOf(request, await egress.send({ ...request, timeoutMs, signal: this.#abort.signal }))
  }

  async #settle(delivery: Claimed, startedMs: number, exchange: Exchange): Promise<void> {
    const { kernel, permanentFailures, onSettled } = this.#dependencies
    this.#requestCount += 1
    const used = delivery.attemptCount - delivery.budgetStart + 1
    const tried = { used, maxAttempts: this.#options.maxAttempts }
    const settlement = {
      delivery,
      verdict: verdictOn(exchange, tried, kernel.clock.now(), Math.random()),
      startedMs,
      ...exchange,
    }
    const joined = await permanentFailures?.settle(settlement)
    const settled = joined ?? (await this.#settlements.add(settlement))
    onSettled(settlement, settled)
    if (!joined && settled.isOurs) permanentFailures?.followUp(settlement, settled)
  }

  /** Retries for LEASE_TIMEOUTS request timeouts, or until the worker aborts. */
  async #settleBatch(settlements: readonly Settlement[]): Promise<Settled[]> {
    const { kernel, queue } = this.#dependencies
    const until = performance.now() + LEASE_TIMEOUTS * this.#options.timeoutMs
    for (;;) {
      try {
        return await queue.settle(settlements)
      } catch (error) {
        kernel.log.warn({ err: error }, 'webhook deliveries were not settled; retrying')
        if (sqlState(error) === LOCK_NOT_AVAILABLE) return this.#settleHalves(settlements)
        if (performance.now() > until || this.#abort.signal.aborted) throw error
        await sleep(SETTLE_PAUSE_MS)
      }
    }
  }

  /** Separates a delivery that another transaction has locked. Its lease expires, and it is sent again. */
  async #settleHalves(settlements: readonly Settlement[]): Promise<Settled[]> {
    if (settlements.length === 1) return [{ isOurs: false, failingSince: null }]
    const half = Math.ceil(settlements.length / 2)
    return [
      ...(await this.#settleBatch(settlements.slice(0, half))),
      ...(await this.#settleBatch(settlements.slice(half))),
    ]
  }

  #untilIdle(signal?: AbortSignal): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#idleWaiters.push(resolve)
      signal?.addEventListener('abort', () => resolve(), { once: true })
      this.#reportIdle()
    })
  }

  #reportIdle(): void {
    if (!this.#inFlight.isEmpty || this.#claimer.isBusy) return
    for (const resolve of this.#idleWaiters.splice(0)) resolve()
  }
}
