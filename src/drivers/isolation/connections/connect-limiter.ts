/**
 * Limits the number of connections that are opened or closed concurrently. Each costs the server a process, so more of
 * them would delay each other. A slow one waits for another resource, and releases its permit early.
 */

const MAX_CONCURRENT = 4
/** A few times the usual duration. */
const SLOW_MS = 100

export class ConnectLimiter {
  readonly #onFree: () => void
  #active = 0

  /** @param onFree called when a permit is held for too long, not when one is released */
  constructor(onFree: () => void) {
    this.#onFree = onFree
  }

  get hasCapacity(): boolean {
    return this.#active < MAX_CONCURRENT
  }

  /** Returns the function that releases the permit. */
  acquire(): () => void {
    let isActive = true
    const release = () => {
      if (!isActive) return
      isActive = false
      clearTimeout(timer)
      this.#active--
    }
    this.#active++
    const timer = setTimeout(() => {
      release()
      this.#onFree()
    }, SLOW_MS)
    return release
  }
}
