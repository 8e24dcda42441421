/**
 * Claims due deliveries, sends them and settles them. Any number of processes have one worker.
 * - It holds `claim` deliveries at most, and sends `concurrency` of them at once. It claims again when a part of its room is free,
 *   so that one statement takes many.
 * - It wakes for a dispatch, a due delivery, a limit that may have been lifted, and every few seconds for deliveries of dead processes.
 * - A request is begun only when its lease will outlive its time-out; what was claimed and cannot be begun in time is given back.
 *   So nobody else sends what is on its way here, unless this process stands still for longer than its lease.
 * - It runs in no caller's context. It settles a response until the lease ends; then the delivery is sent again.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { asSystem } from '../../../kernel/base/context.ts'
import type { Listening } from '../../../kernel/database/notifications.ts'
import { verdictOn } from '../model/delivery.ts'
import { type Claimed, cursorKeysOf, type DeliveryQueue, type Offer, type RoundRobinCursor } from '../queue/queue.ts'
import { CHANNEL } from '../sql/functions.ts'
import { BodyLoader } from './body-loader.ts'
import { InFlight, type InFlightDelivery } from './in-flight.ts'
import { DEFAULT_TIMING, type WorkerDependencies, type WorkerOptions, type WorkerTiming } from './options.ts'
import { send } from './sending.ts'
import { Settler } from './settler.ts'
import { SlowReceivers } from './slow-receivers.ts'
import { StaleSubscriptions } from './stale-subscriptions.ts'

/** For what happens between the end of a request and the end of its lease. */
const MARGIN_MS = 3_000
const LEASE_IN_TIMEOUTS = 3
const AFTER_FAILURE_MS = 1_000
/** For the database, after the last request has ended. */
const STOP_MARGIN_MS = 2_000
const LOCKED_MS = 250

export class DeliveryWorker {
  readonly #dependencies: WorkerDependencies
  readonly #options: WorkerOptions
  readonly #queue: DeliveryQueue
  readonly #timing: WorkerTiming
  readonly #settler: Settler
  readonly #leaseMs: number
  readonly #inFlight: InFlight
  readonly #staleSubscriptions = new StaleSubscriptions()
  readonly #slow: SlowReceivers
  readonly #loader: BodyLoader
  readonly #aborting = new AbortController()
  #ear: Listening | undefined
  #look: NodeJS.Timeout | undefined
  #nextDue: NodeJS.Timeout | undefined
  /** Why it works: it was started, or somebody wants a pass. */
  #reasons = 0
  #isStopped = false
  #isWoken = false
  #full: ReadonlySet<string> = new Set()
  #claiming: Promise<void> | undefined
  #cursor: RoundRobinCursor = {}
  #count = 0
  /** Of the last claim. */
  #failure: unknown
  #idleWaiters: (() => void)[] = []

  constructor(dependencies: WorkerDependencies, options: WorkerOptions) {
    this.#dependencies = dependencies
    this.#options = options
    this.#queue = dependencies.queue
    this.#timing = { ...DEFAULT_TIMING, ...options.timing }
    this.#slow = new SlowReceivers(this.#timing.slowMs)
    this.#inFlight = new InFlight(options)
    const withinMs = LEASE_IN_TIMEOUTS * options.timeoutMs
    this.#leaseMs = withinMs + MARGIN_MS
    this.#settler = new Settler(this.#queue, { log: dependencies.kernel.log, withinMs, signal: this.#aborting.signal })
    this.#loader = new BodyLoader({
      queue: dependencies.queue,
      log: dependencies.kernel.log,
      inFlight: this.#inFlight,
      isRunning: () => this.#isRunning,
      admit: (deliveries, requestedAt) => this.#admit(deliveries, requestedAt),
      release: (heads) => this.#release(heads),
      done: () => this.#free(0),
    })
  }

  async start(): Promise<void> {
    this.#reasons += 1
    this.#look = setInterval(() => this.wake(), this.#timing.idleLookMs).unref()
    const hear = (changed?: string) => asSystem(() => this.#hear(changed))
    this.#ear = await this.#dependencies.kernel.database.listen(CHANNEL, hear, hear)
    this.wake()
  }

  /** There may be something to send. */
  wake(): void {
    if (!this.#isRunning) return
    this.#isWoken = true
    asSystem(() => this.#pump())
  }

  /** Room for what is dispatched here and need not be looked for. What waits elsewhere keeps some. */
  async offer(): Promise<Offer | undefined> {
    await this.#queue.betweenClaims() // beside one nothing could be taken, and would have to be claimed by the next
    const wanted = this.#inFlight.roomForDispatches
    if (!this.#isRunning || this.#options.listener || wanted < 1) return undefined
    this.#inFlight.places += wanted
    return { ...this.#claimOptions(), wanted, madeAt: performance.now() }
  }

  /** What came of an offer; those that it had room for and did not come are free again. */
  take({ wanted, madeAt }: Offer, deliveries: readonly Claimed[]): void {
    if (!this.#isRunning) return void this.#release(deliveries).then(() => this.#free(wanted))
    this.#admit(deliveries, madeAt)
    this.#free(wanted)
  }

  /** Sends what is due, until nothing is; returns how many requests that were. Rejects when it could not be asked what is due. */
  async pass(signal?: AbortSignal): Promise<number> {
    const before = this.#count
    this.#reasons += 1
    this.wake()
    await this.#untilIdle(signal)
    this.#reasons -= 1
    if (!this.#isRunning) await asSystem(() => this.#releaseClaims(this.#inFlight.takeOut()))
    if (this.#failure !== undefined) throw this.#failure
    return this.#count - before
  }

  /** Begins nothing more, gives back what is not begun, and lets what is on its way end, for a while. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#look)
    clearTimeout(this.#nextDue)
    await this.#ear?.close()
    const timer = setTimeout(() => this.#aborting.abort(), this.#timing.stopMs)
    const ended = async () => {
      await this.#claiming
      await this.#loader.idle()
      await this.#releaseClaims(this.#inFlight.takeOut())
      await this.#untilIdle()
    }
    // What a silent database does not answer is left behind: its leases lapse.
    await Promise.race([ended(), sleep(this.#timing.stopMs + STOP_MARGIN_MS, undefined, { ref: false })])
    clearTimeout(timer)
  }

  #pump(): void {
    this.#begin()
    this.#claiming ??= this.#claimWhatThereIs().finally(() => {
      this.#claiming = undefined
      if (this.#isWoken && this.#hasRoom) this.#pump()
      this.#reportIdle()
    })
  }

  get #isRunning(): boolean {
    return this.#reasons > 0 && !this.#isStopped
  }

  get #hasRoom(): boolean {
    return this.#isRunning && this.#inFlight.isWorthFilling
  }

  async #claimWhatThereIs(): Promise<void> {
    while (this.#isWoken && this.#hasRoom) {
      this.#isWoken = false
      const requestedAt = performance.now()
      try {
        const claimed = await this.#queue.claim({
          ...this.#claimOptions(),
          wanted: this.#inFlight.room,
          wantedFailing: this.#inFlight.roomForFailing,
          cursor: this.#cursor,
          onlyWebhook: this.#options.listener?.webhookId ?? null,
        })
        this.#failure = undefined
        this.#cursor = claimed.cursor
        this.#isWoken ||= claimed.isMore
        this.#full = claimed.full
        this.#wakeIn(claimed.nextDueMs)
        await this.#loader.load(claimed.deliveries, requestedAt)
      } catch (error) {
        this.#dependencies.kernel.log.warn({ err: error }, 'deliveries could not be claimed; trying again')
        this.#wakeIn(AFTER_FAILURE_MS)
        this.#failure = error
        return
      }
    }
  }

  #claimOptions() {
    const { perSubscription, perTenant } = this.#options
    return { claim: randomUUID(), leaseMs: this.#leaseMs, perSubscription, perTenant, slowWebhooks: this.#slow.all }
  }

  #admit(deliveries: readonly Claimed[], requestedAt: number): void {
    for (const claimed of deliveries) {
      const delivery = this.#slow.has(claimed.webhookId) ? { ...claimed, isFailing: true } : claimed
      this.#inFlight.add({ delivery, requestedAt })
    }
    if (deliveries.some((delivery) => this.#staleSubscriptions.has(delivery, requestedAt))) this.#releaseStale()
    if (this.#isRunning) this.#begin()
    else void this.#releaseClaims(this.#inFlight.takeOut())
  }

  /** What is past due and could not be claimed is locked by somebody: it is not asked for without a pause. */
  #wakeIn(ms: number | null): void {
    clearTimeout(this.#nextDue)
    if (ms === null || !this.#isRunning || ms > this.#timing.idleLookMs) return
    this.#nextDue = setTimeout(() => this.wake(), ms > 0 ? Math.ceil(ms) : LOCKED_MS).unref()
  }

  /** Begins as many requests as there is room for. */
  #begin(): void {
    while (this.#isRunning) {
      const held = this.#inFlight.next()
      if (!held) return
      const { delivery } = held
      const isLate = ({ requestedAt }: InFlightDelivery) =>
        performance.now() + this.#options.timeoutMs + MARGIN_MS > requestedAt + this.#leaseMs
      if (isLate(held)) {
        void this.#releaseClaims([delivery, ...this.#inFlight.takeOut(isLate)])
        continue
      }
      this.#inFlight.began(delivery)
      void this.#deliver(delivery)
    }
  }

  /** @param changed a subscription; `''`: there is something to send; undefined: there may be anything */
  #hear(changed: string | undefined): void {
    if (!changed) this.wake()
    if (changed === '') return
    this.#staleSubscriptions.add(changed)
    this.#releaseStale()
  }

  /** What waits for a subscription that has changed is claimed anew, with what it says now. */
  #releaseStale(): void {
    void this.#releaseClaims(
      this.#inFlight.takeOut(({ delivery, requestedAt }) => this.#staleSubscriptions.has(delivery, requestedAt)),
    )
  }

  async #releaseClaims(deliveries: readonly Claimed[]): Promise<void> {
    if (deliveries.length === 0) return
    await this.#release(deliveries)
    for (const delivery of deliveries) this.#inFlight.remove(delivery)
    this.#isWoken = true
    this.#free(0)
  }

  async #deliver(delivery: Claimed): Promise<void> {
    const { kernel } = this.#dependencies
    try {
      const startedMs = kernel.clock.now().getTime()
      const { timeoutMs, listener, maxAttempts } = this.#options
      const options = { timeoutMs, listener, nowMs: startedMs, signal: this.#aborting.signal }
      const exchange = await send(this.#dependencies, delivery, options).finally(() => this.#inFlight.ended(delivery))
      const isSlow = exchange && this.#slow.note(delivery.webhookId, exchange)
      if (isSlow) void this.#releaseClaims(this.#inFlight.setApart(delivery.webhookId))
      this.#begin()
      if (!exchange) return
      if (exchange.isAborted)
        return await this.#dependencies.releasedClaims.breakOff({ delivery, startedMs, ...exchange })
      this.#count += 1
      const used = delivery.attemptCount - delivery.budgetStart + 1
      const verdict = verdictOn(exchange, { used, maxAttempts }, kernel.clock.now(), Math.random())
      const settlement = { delivery, verdict, startedMs, ...exchange }
      await this.#dependencies.settle(settlement, () => this.#settler.settle(settlement))
    } catch (error) {
      // Its lease lapses, and somebody sends it again.
      kernel.log.error({ err: error, deliveryId: delivery.id }, 'a delivery could not be settled')
    } finally {
      if (cursorKeysOf(delivery).some((key) => this.#full.has(key))) this.#isWoken = true
      this.#inFlight.remove(delivery)
      this.#free(0)
    }
  }

  #free(count: number): void {
    this.#inFlight.places -= count
    if (this.#isRunning) this.#pump()
    this.#reportIdle()
  }

  async #release(deliveries: readonly Pick<Claimed, 'id' | 'claim'>[]): Promise<void> {
    await this.#dependencies.releasedClaims.release(deliveries).catch((error) => {
      this.#dependencies.kernel.log.warn({ err: error }, 'deliveries could not be given back; their lease will lapse')
    })
  }

  #untilIdle(signal?: AbortSignal): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#idleWaiters.push(resolve)
      signal?.addEventListener('abort', () => resolve(), { once: true })
      this.#reportIdle()
    })
  }

  #reportIdle(): void {
    if (this.#inFlight.places > 0 || this.#claiming || (this.#isRunning && this.#isWoken)) return
    for (const resolve of this.#idleWaiters.splice(0)) resolve()
  }
}
