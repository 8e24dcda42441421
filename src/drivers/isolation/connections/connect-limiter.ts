/**
 * How many connections are made and closed at once: each costs the server a process, and more of them would only wait for each
 * other. One that takes long waits for something else, and is no reason to keep the others waiting.
 */

const AT_ONCE = 4
/** A few times what one takes. */
const LONG_MS = 100

export class Gate {
  readonly #onFree: () => void
  #inside = 0

  /** @param onFree is called when somebody takes too long, not when somebody leaves */
  constructor(onFree: () => void) {
    this.#onFree = onFree
  }

  get isOpen(): boolean {
    return this.#inside < AT_ONCE
  }

  /** Answers how to leave. */
  enter(): () => void {
    let isInside = true
    const leave = () => {
      if (!isInside) return
      isInside = false
      clearTimeout(timer)
      this.#inside--
    }
    this.#inside++
    const timer = setTimeout(() => {
      leave()
      this.#onFree()
    }, LONG_MS)
    return leave
  }
}
