/**
 * Claims due deliveries and loads their bodies while the worker has free places.
 *
 *   wake ──► claim ──► load ──► onLoaded
 *     ▲        └── next due time, or a pause after a failure ──┐
 *     └────────────────────────────────────────────────────────┘
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../../kernel/base/logger.ts'
import { type Claimed, cursorKeysOf, type DeliveryQueue, type Head, type RoundRobinCursor } from '../queue/queue.ts'
import type { ReleasedClaims } from '../queue/released-claims.ts'
import type { InFlight } from './in-flight.ts'

const MAX_BATCH_BYTES = 8 * 1024 * 1024
const MAX_IN_FLIGHT_BYTES = 64 * 1024 * 1024
/** Larger bodies wait for memory. Smaller ones do not wait for them. */
const SMALL_BODY_BYTES = 16 * 1024
const MEMORY_POLL_MS = 20
const FAILURE_PAUSE_MS = 1_000
/** Pause if a delivery is due, but locked by another process. */
const LOCKED_PAUSE_MS = 250

export interface ClaimRules {
  /** Maximum of deliveries in flight over all processes, to one subscription and of one tenant. */
  readonly perSubscription: number
  readonly perTenant: number
  /** Interval at which the worker claims without a wake-up: for crashed processes and lost notifications. */
  readonly pollMs: number
  /** The worker sends only for this subscription, to this URL. Other workers do not claim its deliveries. */
  readonly listener?: { readonly webhookId: string; readonly url: string }
}

export interface ClaimerDependencies {
  readonly queue: DeliveryQueue
  readonly releasedClaims: ReleasedClaims
  readonly log: Logger
  readonly inFlight: InFlight
  readonly rules: ClaimRules
  readonly leaseMs: number
  isRunning(): boolean
  onLoaded(deliveries: readonly Claimed[], requestedAt: number): void
  /** Called when a claim, or the load of large bodies, has ended. */
  onEnd(): void
}

export class Claimer {
  readonly #dependencies: ClaimerDependencies
  readonly #loadingLarge = new Set<Promise<void>>()
  #isWoken = false
  #claiming: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #cursor: RoundRobinCursor = {}
  #full: ReadonlySet<string> = new Set()
  #failure: unknown

  constructor(dependencies: ClaimerDependencies) {
    this.#dependencies = dependencies
  }

  /** Error of the last claim; undefined if it succeeded. */
  get failure(): unknown {
    return this.#failure
  }

  get isBusy(): boolean {
    return this.#claiming !== undefined || (this.#isWoken && this.#dependencies.isRunning())
  }

  /** Due deliveries may exist. `run` claims them. */
  wake(): void {
    this.#isWoken = true
  }

  /** A delivery was settled. Wakes if its partition or subscription had reached its limit. */
  noteSettled(delivery: Claimed): void {
    if (cursorKeysOf(delivery).some((key) => this.#full.has(key))) this.wake()
  }

  /** Claims until the wake-up is handled or the places are taken. */
  run(): void {
    if (this.#claiming || !this.#mayClaim) return
    this.#claiming = this.#claimDue().finally(() => {
      this.#claiming = undefined
      this.run()
      this.#dependencies.onEnd()
    })
  }

  /** Values of a new claim, also for a dispatch that claims its own deliveries. */
  newClaim() {
    const { rules, leaseMs, inFlight } = this.#dependencies
    const { perSubscription, perTenant } = rules
    return { claim: randomUUID(), leaseMs, perSubscription, perTenant, slowWebhooks: inFlight.slowWebhooks }
  }

  /** Waits for the claim and the loads in progress. Call it when the worker no longer runs. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#claiming
    await Promise.all(this.#loadingLarge)
  }

  get #mayClaim(): boolean {
    const { isRunning, inFlight } = this.#dependencies
    return this.#isWoken && isRunning() && inFlight.hasRoomForClaim
  }

  async #claimDue(): Promise<void> {
    const { queue, inFlight, log, rules } = this.#dependencies
    while (this.#mayClaim) {
      this.#isWoken = false
      const requestedAt = performance.now()
      try {
        const { deliveries, cursor, isMore, full, nextDueMs } = await queue.claim({
          ...this.newClaim(),
          wanted: inFlight.room,
          wantedFailing: inFlight.roomForFailing,
          cursor: this.#cursor,
          onlyWebhook: rules.listener?.webhookId ?? null,
        })
        this.#failure = undefined
        this.#cursor = cursor
        this.#full = full
        if (isMore) this.wake()
        this.#wakeAfter(nextDueMs)
        await this.#load(deliveries, requestedAt)
      } catch (error) {
        log.warn({ err: error }, 'webhook deliveries were not claimed; retrying')
        this.#failure = error
        this.#wakeAfter(FAILURE_PAUSE_MS)
        return
      }
    }
  }

  #wakeAfter(ms: number | null): void {
    const { isRunning, rules } = this.#dependencies
    clearTimeout(this.#timer)
    if (ms === null || ms > rules.pollMs || !isRunning()) return
    const wake = () => {
      this.wake()
      this.run()
    }
    this.#timer = setTimeout(wake, ms > 0 ? Math.ceil(ms) : LOCKED_PAUSE_MS).unref()
  }

  /** Resolves when small bodies are loaded. */
  async #load(heads: readonly Head[], requestedAt: number): Promise<void> {
    const { inFlight, log, onEnd } = this.#dependencies
    inFlight.reserve(heads.length)
    const { small = [], large = [] } = Object.groupBy(heads, ({ bytes }) =>
      bytes > SMALL_BODY_BYTES ? 'large' : 'small',
    )
    if (large.length > 0) {
      const loading: Promise<void> = this.#loadBatches(large, requestedAt)
        .catch((error) => log.warn({ err: error }, 'bodies of webhook deliveries were not loaded; claiming them again'))
        .finally(() => {
          this.#loadingLarge.delete(loading)
          this.run()
          onEnd()
        })
      this.#loadingLarge.add(loading)
    }
    await this.#loadBatches(small, requestedAt)
  }

  async #loadBatches(heads: readonly Head[], requestedAt: number): Promise<void> {
    const { queue, releasedClaims, inFlight, isRunning, onLoaded } = this.#dependencies
    let rest = heads
    try {
      while (rest.length > 0) {
        const batch = firstBatch(rest)
        const isLarge = batch.some(({ bytes }) => bytes > SMALL_BODY_BYTES)
        while (isLarge && isRunning() && inFlight.bytes > MAX_IN_FLIGHT_BYTES) await sleep(MEMORY_POLL_MS)
        const deliveries = await queue.load(batch)
        rest = rest.slice(batch.length)
        inFlight.reserve(-batch.length)
        onLoaded(deliveries, requestedAt)
      }
    } catch (error) {
      await releasedClaims.release(rest)
      inFlight.reserve(-rest.length)
      throw error
    }
  }
}

/** The first deliveries whose bodies fit into one batch; at least one. */
function firstBatch(heads: readonly Head[]): readonly Head[] {
  let bytes = 0
  const count = heads.findIndex((head, index) => {
    bytes += head.bytes
    return bytes > MAX_BATCH_BYTES && index > 0
  })
  return count < 0 ? heads : heads.slice(0, count)
}
