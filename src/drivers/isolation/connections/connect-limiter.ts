/**
 * How many connections are made and closed at once: each costs the server a process, and more of them would only wait for each
 * other. One that takes long waits for something else, and is no reason to keep the others waiting.
 */

const MAX_CONCURRENT = 4
/** A few times what one takes. */
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
