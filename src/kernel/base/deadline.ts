/**
 * The time limit of a request or of one read of a stream. When it expires, its caller receives an error, its connections are closed
 * (kernel/database/deadline-connection.ts), and statements that its abandoned work starts later are rejected.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

const storage = new AsyncLocalStorage<Deadline | undefined>()

export class Deadline {
  readonly #error: (deadline: Deadline) => Error
  readonly #listeners = new Set<(error: Error) => void>()
  readonly #expiry = Promise.withResolvers<any>()
  #state: 'open' | 'expired' | 'closed' = 'open'
  #endsAt: number
  #timer: NodeJS.Timeout | undefined
  #signal: AbortSignal | undefined
  #expired: Error | undefined
  /** Whether a change was sent to the backoffice that is committed, or may be. */
  mayHaveCommitted = false
  /** A result of the work that is known before its end. It replaces the error. */
  fallback: (() => unknown) | undefined

  /** @param error of the caller when the time has expired */
  constructor(timeoutMs: number, error: (deadline: Deadline) => Error) {
    this.#error = error
    this.#endsAt = performance.now() + timeoutMs
    this.#expiry.promise.catch(() => undefined) // nothing may wait for it
    this.#schedule()
  }

  get isExpired(): boolean {
    // A busy process runs its timers late.
    if (this.#state === 'open' && performance.now() >= this.#endsAt) this.#expire()
    return this.#state === 'expired'
  }

  get isOpen(): boolean {
    return this.#state === 'open'
  }

  get remainingMs(): number {
    return Math.max(0, this.#endsAt - performance.now())
  }

  /** Aborts when the time expires. */
  get signal(): AbortSignal {
    if (!this.#signal) {
      const controller = new AbortController()
      this.onExpiry((error) => controller.abort(error))
      this.#signal = controller.signal
    }
    return this.#signal
  }

  /** Runs `work`, and waits for it until the time expires. May be called again for further work. */
  run<T>(work: () => Promise<T>): Promise<T> {
    return this.isExpired ? this.#expiry.promise : Promise.race([storage.run(this, work), this.#expiry.promise])
  }

  /** Adds time. */
  extend(ms: number): void {
    this.#endsAt += ms
    if (this.#state === 'open') this.#schedule()
  }

  /** Throws if the time has expired. */
  assertOpen(): void {
    if (this.isExpired) throw this.#expiredError()
  }

  /** Calls `listener` with the error of the caller when the time expires, or now if it has. Returns a function that removes it. */
  onExpiry(listener: (error: Error) => void): () => void {
    if (this.#state === 'expired') listener(this.#expiredError())
    else this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Ends the limit: work that continues after the response has none, unless the time has expired. */
  close(): void {
    clearTimeout(this.#timer)
    if (this.#state === 'open') this.#state = 'closed'
  }

  #schedule(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#expire(), this.remainingMs).unref()
  }

  #expire(): void {
    if (this.#state !== 'open') return
    clearTimeout(this.#timer)
    this.#state = 'expired'
    if (this.fallback) this.#expiry.resolve(this.fallback())
    else this.#expiry.reject(this.#expiredError())
    for (const listener of this.#listeners) listener(this.#expiredError())
  }

  /** One error for all: its marks are seen by the caller. */
  #expiredError(): Error {
    this.#expired ??= this.#error(this)
    return this.#expired
  }
}

/** The deadline of the work in progress; undefined if it has none. */
export function currentDeadline(): Deadline | undefined {
  const deadline = storage.getStore()
  return deadline?.isOpen || deadline?.isExpired ? deadline : undefined
}

/** Runs `work` without the deadline of the work in progress. */
export const withoutDeadline = <T>(work: () => T): T => storage.run(undefined, work)
