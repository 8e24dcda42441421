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
import type { Listening } from '../../kernel/notifications.ts'
import type { CourierOptions, CourierPart } from './courier-part.ts'
import { verdictOn } from './delivery.ts'
import { CHANNEL } from './functions.ts'
import { Hold } from './hold.ts'
import { loaded } from './loading.ts'
import { type Claimed, type DeliveryQueue, type Head, lanesOf, type Offer, type Turns } from './queue.ts'
import { send } from './sending.ts'
import { Settler } from './settler.ts'

/** For what happens between the end of a request and the end of its lease. */
const MARGIN_MS = 3_000
const LEASE_IN_TIMEOUTS = 3
/** Of all room, for what is dispatched here. */
const SHARE_OF_DISPATCHES = 0.75
const IDLE_LOOK_MS = 5_000
const AFTER_FAILURE_MS = 1_000
/** How long what is on its way may take to end when the worker stops. */
const STOP_MS = 4_000
/** Of all room and all requests, for receivers that fail at present. */
const SHARE_OF_FAILING = 0.25
const MOST_BYTES_HELD = 64 * 1024 * 1024
const LOCKED_MS = 250

export class Courier {
  readonly #part: CourierPart
  readonly #options: CourierOptions
  readonly #queue: DeliveryQueue
  readonly #settler: Settler
  readonly #leaseMs: number
  readonly #hold = new Hold()
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
  #sending = 0
  #sendingFailing = 0
  #count = 0
  /** Of the last claim. */
  #failure: unknown
  #quiet: (() => void)[] = []

  constructor(part: CourierPart, options: CourierOptions) {
    this.#part = part
    this.#options = options
    this.#queue = part.queue
    const withinMs = LEASE_IN_TIMEOUTS * options.timeoutMs
    this.#leaseMs = withinMs + MARGIN_MS
    this.#settler = new Settler(this.#queue, { log: part.kernel.log, withinMs, signal: this.#giveUp.signal })
  }

  async start(): Promise<void> {
    this.#reasons += 1
    this.#look = setInterval(() => this.wake(), IDLE_LOOK_MS).unref()
    const wake = () => this.wake()
    const hear = (changed: string) => (changed === '' ? wake() : this.#forget(changed))
    this.#ear = await this.#part.kernel.database.listen(CHANNEL, hear, wake)
    this.wake()
  }

  /** There may be something to send. */
  wake(): void {
    if (!this.#isRunning) return
    this.#isWoken = true
    this.#pump()
  }

  /** Room for what is dispatched here and need not be looked for. What waits elsewhere keeps some. */
  async offer(): Promise<Offer | undefined> {
    await this.#queue.betweenClaims() // beside one nothing could be taken, and would have to be claimed by the next
    const { claim, perSubscription, perTenant, listener } = this.#options
    const wanted = Math.floor(claim * SHARE_OF_DISPATCHES) - this.#hold.places
    if (!this.#isRunning || listener || wanted < 1) return undefined
    this.#hold.places += wanted
    const madeAt = performance.now()
    return { claim: randomUUID(), wanted, leaseMs: this.#leaseMs, perSubscription, perTenant, madeAt }
  }

  /** What came of an offer; those that it had room for and did not come are free again. */
  take({ wanted, leaseMs, madeAt }: Offer, deliveries: readonly Claimed[]): void {
    if (!this.#isRunning) return void this.#giveBack(deliveries).then(() => this.#free(wanted))
    this.#admit(deliveries, madeAt + leaseMs)
    this.#free(wanted)
  }

  /** Sends what is due, until nothing is; answers how many requests that were. Rejects when it could not be asked what is due. */
  async pass(signal?: AbortSignal): Promise<number> {
    const before = this.#count
    this.#reasons += 1
    this.wake()
    await this.#untilQuiet(signal)
    this.#reasons -= 1
    if (!this.#isRunning) await this.#letGo(this.#hold.takeOut())
    if (this.#failure !== undefined) throw this.#failure
    return this.#count - before
  }

  /** Begins nothing more, gives back what is not begun, and lets what is on its way end, for a while. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#look)
    clearTimeout(this.#nextDue)
    await this.#ear?.close()
    const timer = setTimeout(() => this.#giveUp.abort(), STOP_MS)
    const ended = async () => {
      await this.#claiming
      await this.#letGo(this.#hold.takeOut())
      await this.#untilQuiet()
    }
    // What a silent database does not answer is left behind: its leases lapse.
    await Promise.race([ended(), sleep(STOP_MS * 1.5, undefined, { ref: false })])
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

  get #hasRoom(): boolean {
    const room = this.#options.claim - this.#hold.places
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
          wanted: claim - this.#hold.places,
          wantedFailing: Math.max(0, Math.ceil(claim * SHARE_OF_FAILING) - this.#hold.failing),
          leaseMs,
          perSubscription,
          perTenant,
          turns: this.#turns,
          onlyWebhook: listener?.webhookId ?? null,
        })
        this.#failure = undefined
        this.#turns = claimed.turns
        this.#isWoken ||= claimed.isMore
        this.#full = claimed.full
        this.#wakeIn(claimed.nextDueMs)
        await this.#load(claimed.deliveries, askedAt + leaseMs)
      } catch (error) {
        this.#part.kernel.log.warn({ err: error }, 'deliveries could not be claimed; trying again')
        this.#wakeIn(AFTER_FAILURE_MS)
        this.#failure = error
        return
      }
    }
  }

  async #load(heads: readonly Head[], leaseEndsAt: number): Promise<void> {
    this.#hold.places += heads.length
    let left = heads
    try {
      for await (const part of loaded(
        this.#queue,
        heads,
        () => this.#isRunning && this.#hold.bytes > MOST_BYTES_HELD,
      )) {
        left = left.slice(part.length)
        this.#hold.places -= part.length
        this.#admit(part, leaseEndsAt)
      }
    } catch (error) {
      await this.#giveBack(left)
      this.#hold.places -= left.length
      throw error
    }
  }

  #admit(deliveries: readonly Claimed[], leaseEndsAt: number): void {
    for (const delivery of deliveries) this.#hold.add({ delivery, leaseEndsAt })
    this.#begin()
  }

  /** What is past due and could not be claimed is locked by somebody: it is not asked for without a pause. */
  #wakeIn(ms: number | null): void {
    clearTimeout(this.#nextDue)
    if (ms === null || !this.#isRunning || ms > IDLE_LOOK_MS) return
    this.#nextDue = setTimeout(() => this.wake(), ms > 0 ? Math.ceil(ms) : LOCKED_MS).unref()
  }

  /** Begins as many requests as there is room for. */
  #begin(): void {
    while (this.#isRunning && this.#sending < this.#options.concurrency) {
      const held = this.#hold.next(this.#sendingFailing < this.#options.concurrency * SHARE_OF_FAILING)
      if (!held) return
      const { delivery } = held
      const mustEndAt = performance.now() + this.#options.timeoutMs + MARGIN_MS
      if (mustEndAt > held.leaseEndsAt) {
        void this.#letGo([delivery, ...this.#hold.takeOut(({ leaseEndsAt }) => mustEndAt > leaseEndsAt)])
        continue
      }
      this.#sending += 1
      if (delivery.isFailing) this.#sendingFailing += 1
      void this.#deliver(delivery)
    }
  }

  /** A subscription has changed: what waits for it is claimed anew, with what it says now. */
  #forget(webhookId: string): void {
    void this.#letGo(this.#hold.takeOut(({ delivery }) => delivery.webhookId === webhookId))
  }

  async #letGo(deliveries: readonly Claimed[]): Promise<void> {
    if (deliveries.length === 0) return
    await this.#giveBack(deliveries)
    for (const delivery of deliveries) this.#hold.remove(delivery)
    this.#isWoken = true
    this.#free(0)
  }

  async #deliver(delivery: Claimed): Promise<void> {
    const { kernel } = this.#part
    try {
      const startedMs = kernel.clock.now().getTime()
      const { timeoutMs, listener, maxAttempts } = this.#options
      const wish = { timeoutMs, listener, nowMs: startedMs, signal: this.#giveUp.signal }
      const exchange = await send(this.#part, delivery, wish).finally(() => {
        this.#sending -= 1
        if (delivery.isFailing) this.#sendingFailing -= 1
        this.#begin()
      })
      if (!exchange) return
      this.#count += 1
      if (exchange.isGivenUp) return await this.#giveBack([delivery])
      const used = delivery.attemptCount - delivery.budgetStart + 1
      const verdict = verdictOn(exchange, { used, maxAttempts }, kernel.clock.now(), Math.random())
      const settlement = { delivery, verdict, startedMs, ...exchange }
      await this.#part.settle(settlement, () => this.#settler.settle(settlement))
    } catch (error) {
      // Its lease lapses, and somebody sends it again.
      kernel.log.error({ err: error, deliveryId: delivery.id }, 'a delivery could not be settled')
    } finally {
      if (lanesOf(delivery).some((lane) => this.#full.has(lane))) this.#isWoken = true
      this.#hold.remove(delivery)
      this.#free(0)
    }
  }

  #free(count: number): void {
    this.#hold.places -= count
    if (this.#isRunning) this.#pump()
    this.#tellQuiet()
  }

  async #giveBack(deliveries: readonly Pick<Claimed, 'id' | 'claim'>[]): Promise<void> {
    await this.#queue.giveBack(deliveries).catch((error) => {
      this.#part.kernel.log.warn({ err: error }, 'deliveries could not be given back; their lease will lapse')
    })
  }

  #untilQuiet(signal?: AbortSignal): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#quiet.push(resolve)
      signal?.addEventListener('abort', () => resolve(), { once: true })
      this.#tellQuiet()
    })
  }

  #tellQuiet(): void {
    if (this.#hold.places > 0 || this.#claiming || (this.#isRunning && this.#isWoken)) return
    for (const tell of this.#quiet.splice(0)) tell()
  }
}
