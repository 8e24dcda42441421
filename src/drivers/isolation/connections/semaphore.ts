/**
 * Room for so many at once, in one process; who finds none waits for its turn, or until nobody wants it any more. Whoever is inside
 * must not ask for room of the same kind: it might wait for itself.
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

  /** Who waits longest takes the place, and nobody who comes meanwhile. */
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
