/**
 * Limits concurrent work in one process. Callers without a permit wait in their order, or until their signal aborts. A
 * holder of a permit must not acquire another one of the same semaphore, because it could deadlock.
 */
export class Semaphore {
  readonly #max: number
  readonly #waiting = new Set<() => void>()
  #active = 0

  constructor(max: number) {
    this.#max = max
  }

  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#acquire(signal)
    try {
      return await work()
    } finally {
      this.#release()
    }
  }

  async #acquire(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#active < this.#max) {
      this.#active++
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const goIn = () => {
      signal.removeEventListener('abort', abandon)
      resolve()
    }
    const abandon = () => {
      this.#waiting.delete(goIn)
      reject(signal.reason)
    }
    signal.addEventListener('abort', abandon, { once: true })
    this.#waiting.add(goIn)
    await promise
  }

  /** Passes the permit to the oldest waiting caller, before any new one. */
  #release(): void {
    const [next] = this.#waiting
    if (!next) {
      this.#active--
      return
    }
    this.#waiting.delete(next)
    next()
  }
}
