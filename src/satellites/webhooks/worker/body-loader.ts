/**
 * Bodies of what was claimed. They may be large: some at a time are read, what has come can be begun, and what is large may have to wait
 * until there is room for it, for which nobody else waits.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../../kernel/base/logger.ts'
import type { Claimed, DeliveryQueue, Head } from '../queue/queue.ts'
import type { InFlight } from './in-flight.ts'

const MOST_BYTES_AT_ONCE = 8 * 1024 * 1024
const MOST_BYTES_HELD = 64 * 1024 * 1024
/** A body that waits for no room. */
const SMALL_BYTES = 16 * 1024
const SHORTLY_MS = 20

export interface LoaderDependencies {
  readonly queue: DeliveryQueue
  readonly log: Logger
  readonly inFlight: InFlight
  isRunning(): boolean
  admit(deliveries: readonly Claimed[], requestedAt: number): void
  release(heads: readonly Head[]): Promise<void>
  /** Something large has come, or was given back. */
  done(): void
}

export class BodyLoader {
  readonly #dependencies: LoaderDependencies
  readonly #waiting = new Set<Promise<void>>()

  constructor(dependencies: LoaderDependencies) {
    this.#dependencies = dependencies
  }

  /** Resolves when what is small has come. @param requestedAt when it was claimed, as `performance.now()` tells time */
  async load(heads: readonly Head[], requestedAt: number): Promise<void> {
    const { inFlight, log, done } = this.#dependencies
    inFlight.places += heads.length
    const { small = [], large = [] } = Object.groupBy(heads, ({ bytes }) => (bytes > SMALL_BYTES ? 'large' : 'small'))
    if (large.length > 0) {
      const waiting: Promise<void> = this.#load(large, requestedAt, true)
        .catch((error) =>
          log.warn({ err: error }, 'large bodies of deliveries could not be read; they are claimed again'),
        )
        .finally(() => {
          this.#waiting.delete(waiting)
          done()
        })
      this.#waiting.add(waiting)
    }
    await this.#load(small, requestedAt, false)
  }

  /** Resolves when nothing waits for room any more. */
  async idle(): Promise<void> {
    await Promise.all(this.#waiting)
  }

  async #load(heads: readonly Head[], requestedAt: number, mustHaveRoom: boolean): Promise<void> {
    const { queue, inFlight, isRunning, admit, release } = this.#dependencies
    let left = heads
    try {
      while (left.length > 0) {
        while (mustHaveRoom && isRunning() && inFlight.bytes > MOST_BYTES_HELD) await sleep(SHORTLY_MS)
        const part = firstBytes(left, MOST_BYTES_AT_ONCE)
        const deliveries = await queue.load(part)
        left = left.slice(part.length)
        inFlight.places -= part.length
        admit(deliveries, requestedAt)
      }
    } catch (error) {
      await release(left)
      inFlight.places -= left.length
      throw error
    }
  }
}

/** As many as their bodies leave room for; one at least. */
function firstBytes(heads: readonly Head[], most: number): readonly Head[] {
  let bytes = 0
  const count = heads.findIndex((head, index) => {
    bytes += head.bytes
    return bytes > most && index > 0
  })
  return count < 0 ? heads : heads.slice(0, count)
}
