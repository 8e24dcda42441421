/**
 * The worker: claims what is due, sends it, settles it. Any number of processes have one.
 *
 * - It holds `claim` deliveries at most, and sends `concurrency` of them at once. It claims again when a part of its room is free,
 *   so that one statement takes many.
 * - It wakes when something was dispatched, here or elsewhere, when something falls due, when a bound may have given way, and every
 *   few seconds, for what a process that is gone has left behind.
 * - A request is begun only when its lease will outlive its time-out; what was claimed and cannot be begun in time is given back.
 *   So nobody else sends what is on its way here, unless this process stands still for longer than its lease.
 * - What has been answered is settled, if need be again and again, until its lease is over; then it is sent once more.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Gathering } from '../../kernel/gathering.ts'
import type { Listening } from '../../kernel/notifications.ts'
import type { CourierOptions, CourierPart } from './courier-part.ts'
import { verdictOn } from './delivery.ts'
import { CHANNEL } from './functions.ts'
import { type Claimed, DeliveryQueue, lanesOf, type Offer, type Settled, type Settlement, type Turns } from './queue.ts'
import { type Exchange, exchangeOf, notSent, requestFor } from './request.ts'

/** For what happens between the end of a request and the end of its lease. */
const MARGIN_MS = 3_000
const LEASE_IN_TIMEOUTS = 3
/** Of all room, for what is dispatched here. */
const SHARE_OF_DISPATCHES = 0.75
const IDLE_LOOK_MS = 5_000
const AFTER_FAILURE_MS = 1_000
const SETTLED_AT_ONCE = 500
/** How long what is on its way may take to end when the worker stops. */
const STOP_MS = 4_000

interface Held {
  readonly delivery: Claimed
  readonly leaseEndsAt: number
}

export class Courier {
  readonly #part: CourierPart
  readonly #options: CourierOptions
  readonly #queue: DeliveryQueue
  readonly #settling: Gathering<Settlement, Settled>
  readonly #waiting: Held[] = []
  readonly #giveUp = new AbortController()
  #ear: Listening | undefined
  #look: NodeJS.Timeout | undefined
  #nextDue: NodeJS.Timeout | undefined
  /** Why it works: it was started, or somebody wants a pass. */
  #reasons = 0
  #isStopped = false
  #isWoken = false
  #full: ReadonlySet<string> = new Set()
  #claiming: Promise<void> | undefined
  #turns: Turns = {}
  #held = 0
  #sending = 0
  #count = 0
  #quiet: (() => void)[] = []

  constructor(part: CourierPart, options: CourierOptions) {
    this.#part = part
    this.#options = options
    const { database, clock } = part.kernel
    this.#queue = new DeliveryQueue(database, clock)
    this.#settling = new Gathering((settlements) => this.#settle(settlements), { most: SETTLED_AT_ONCE })
  }

  async start(): Promise<void> {
    this.#reasons += 1
    this.#look = setInterval(() => this.wake(), IDLE_LOOK_MS).unref()
    this.#ear = await this.#part.kernel.database.listen(
      CHANNEL,
      () => this.wake(),
      () => this.wake(),
    )
    this.wake()
  }

  /** There may be something to send. */
  wake(): void {
    if (!this.#isRunning) return
    this.#isWoken = true
    this.#pump()
  }

  /** Room for what is dispatched here and need not be looked for. What waits elsewhere keeps some. */
  offer(): Offer | undefined {
    const { claim, perSubscription, perTenant, listener } = this.#options
    const wanted = Math.floor(claim * SHARE_OF_DISPATCHES) - this.#held
    if (!this.#isRunning || listener || wanted < 1) return undefined
    this.#held += wanted
    const madeAt = performance.now()
    return { claim: randomUUID(), wanted, leaseMs: this.#leaseMs, perSubscription, perTenant, madeAt }
  }

  /** What came of an offer; those that it had room for and did not come are free again. */
  take({ wanted, leaseMs, madeAt }: Offer, deliveries: readonly Claimed[]): void {
    if (!this.#isRunning) {
      void this.#giveBack(deliveries).then(() => this.#free(wanted))
      return
    }
    for (const delivery of deliveries) this.#waiting.push({ delivery, leaseEndsAt: madeAt + leaseMs })
    this.#begin()
    this.#free(wanted - deliveries.length)
  }

  /** Sends what is due, until nothing is; answers how many requests that were. Beside whoever else does. */
  async pass(signal?: AbortSignal): Promise<number> {
    const before = this.#count
    this.#reasons += 1
    this.wake()
    await new Promise<void>((resolve) => {
      this.#quiet.push(resolve)
      signal?.addEventListener('abort', () => resolve(), { once: true })
      this.#tellQuiet()
    })
    this.#reasons -= 1
    return this.#count - before
  }

  /** Begins nothing more, gives back what is not begun, and lets what is on its way end, for a while. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#look)
    clearTimeout(this.#nextDue)
    await this.#ear?.close()
    await this.#claiming
    const unsent = this.#waiting.splice(0)
    this.#held -= unsent.length
    await this.#giveBack(unsent.map(({ delivery }) => delivery))
    const timer = setTimeout(() => this.#giveUp.abort(), STOP_MS)
    if (this.#held > 0) await new Promise<void>((resolve) => this.#quiet.push(resolve))
    clearTimeout(timer)
  }

  #pump(): void {
    this.#begin()
    this.#claiming ??= this.#claimWhatThereIs().finally(() => {
      this.#claiming = undefined
      if (this.#isWoken && this.#hasRoom) this.#pump()
      this.#tellQuiet()
    })
  }

  get #isRunning(): boolean {
    return this.#reasons > 0 && !this.#isStopped
  }

  get #leaseMs(): number {
    return LEASE_IN_TIMEOUTS * this.#options.timeoutMs + MARGIN_MS
  }

  get #hasRoom(): boolean {
    const room = this.#options.claim - this.#held
    return this.#isRunning && room >= Math.ceil(this.#options.claim / 4)
  }

  async #claimWhatThereIs(): Promise<void> {
    const { claim, perSubscription, perTenant, listener } = this.#options
    const leaseMs = this.#leaseMs
    while (this.#isWoken && this.#hasRoom) {
      this.#isWoken = false
      const askedAt = performance.now()
      try {
        const claimed = await this.#queue.claim({
          claim: randomUUID(),
          wanted: claim - this.#held,
          leaseMs,
          perSubscription,
          perTenant,
          turns: this.#turns,
          onlyWebhook: listener?.webhookId ?? null,
        })
        this.#turns = claimed.turns
        this.#isWoken ||= claimed.isMore
        this.#full = claimed.full
        this.#held += claimed.deliveries.length
        for (const delivery of claimed.deliveries) this.#waiting.push({ delivery, leaseEndsAt: askedAt + leaseMs })
        this.#wakeIn(claimed.nextDueMs)
        this.#begin()
      } catch (error) {
        this.#part.kernel.log.warn({ err: error }, 'deliveries could not be claimed; trying again')
        this.#wakeIn(AFTER_FAILURE_MS)
        return
      }
    }
  }

  #wakeIn(ms: number | null): void {
    clearTimeout(this.#nextDue)
    if (ms === null || !this.#isRunning || ms > IDLE_LOOK_MS) return
    this.#nextDue = setTimeout(() => this.wake(), Math.max(1, Math.ceil(ms))).unref()
  }

  /** Begins as many requests as there is room for. */
  #begin(): void {
    while (this.#isRunning && this.#sending < this.#options.concurrency) {
      const held = this.#waiting.shift()
      if (!held) return
      if (performance.now() + this.#options.timeoutMs + MARGIN_MS > held.leaseEndsAt) {
        const late = [held, ...this.#waiting.splice(0)].map(({ delivery }) => delivery)
        void this.#giveBack(late).then(() => {
          this.#isWoken = true
          this.#free(late.length)
        })
        return
      }
      this.#sending += 1
      void this.#deliver(held.delivery)
    }
  }

  async #deliver(delivery: Claimed): Promise<void> {
    const { kernel } = this.#part
    try {
      const startedMs = kernel.clock.now().getTime()
      const exchange = await this.#exchange(delivery, startedMs).finally(() => {
        this.#sending -= 1
        this.#begin()
      })
      if (exchange.isGivenUp) return await this.#giveBack([delivery])
      const used = delivery.attemptCount - delivery.budgetStart + 1
      const tried = { used, maxAttempts: this.#options.maxAttempts }
      const verdict = verdictOn(exchange, tried, kernel.clock.now(), Math.random())
      const settlement = { delivery, verdict, startedMs, ...exchange }
      const settled = await this.#settling.add(settlement)
      if (settled.isOurs) this.#part.settled(settlement, settled)
    } catch (error) {
      // Its lease lapses, and somebody sends it again.
      kernel.log.error({ err: error, deliveryId: delivery.id }, 'a delivery could not be settled')
    } finally {
      if (lanesOf(delivery).some((lane) => this.#full.has(lane))) this.#isWoken = true
      this.#free(1)
    }
  }

  async #exchange(delivery: Claimed, nowMs: number): Promise<Exchange> {
    const { kernel, egress, secretsOf } = this.#part
    const { timeoutMs, listener } = this.#options
    if (delivery.body === null) return notSent('its body is not kept any more')
    let secrets: readonly string[]
    try {
      secrets = secretsOf(delivery)
    } catch (error) {
      kernel.log.error({ err: error, webhookId: delivery.webhookId }, 'the secret of a subscription cannot be opened')
      return notSent('its secret cannot be opened')
    }
    this.#count += 1
    const request = requestFor(delivery, delivery.body, listener?.url ?? delivery.url, secrets, nowMs)
    return exchangeOf(request, await egress.send({ ...request, timeoutMs, signal: this.#giveUp.signal }))
  }

  #free(count: number): void {
    this.#held -= count
    if (this.#isRunning) this.#pump()
    this.#tellQuiet()
  }

  async #settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const { timeoutMs } = this.#options
    const until = performance.now() + LEASE_IN_TIMEOUTS * timeoutMs
    for (;;) {
      try {
        return await this.#queue.settle(settlements)
      } catch (error) {
        if (performance.now() > until || this.#giveUp.signal.aborted) throw error
        this.#part.kernel.log.warn({ err: error }, 'deliveries could not be settled; trying again')
        await sleep(AFTER_FAILURE_MS)
      }
    }
  }

  async #giveBack(deliveries: readonly Claimed[]): Promise<void> {
    await this.#queue.giveBack(deliveries).catch((error) => {
      this.#part.kernel.log.warn({ err: error }, 'deliveries could not be given back; their lease will lapse')
    })
  }

  #tellQuiet(): void {
    if (this.#held > 0 || this.#claiming || (this.#isRunning && this.#isWoken)) return
    for (const tell of this.#quiet.splice(0)) tell()
  }
}
