/**
 * Limits failed sign-ins per client address, over all processes.
 *
 *   wrong token or code ──► counted in the store ──► up to 20: 401
 *                                               └──► more: 429 with `Retry-After`, until a minute after the last one that was counted
 *
 * - A correct token or code is neither counted nor rejected.
 * - The store adds and returns the count in one step, so concurrent failures are counted exactly.
 * - A process remembers rejected addresses: their further failures do not reach the store.
 */
import { LRUCache } from 'lru-cache'
import { currentContext } from '../kernel/base/context.ts'
import { DependencyUnavailable, defineError } from '../kernel/base/errors.ts'
import { networkOf } from '../kernel/egress/addresses.ts'
import type { Kernel } from '../kernel/kernel.ts'

export const MAX_FAILED_SIGN_INS = 20
const WINDOW_SECONDS = 60
const MAX_REMEMBERED = 10_000

export const TooManyAttempts = defineError('E_TOO_MANY_ATTEMPTS', 429, 'Too many failed sign-ins', {
  headers: { 'Retry-After': 'Seconds until a wrong token receives a 401 again; a correct one always passes' },
})

/** The key of the service in the store. Clients of unknown address share one. */
export const failedSignInsKey = (ip: string | null): string => `failed-sign-ins:${networkOf(ip ?? '') ?? 'unknown'}`

export class FailedSignIns {
  readonly #kernel: Pick<Kernel, 'store' | 'clock' | 'resilience'>
  /** End of the rejection of each key, in ms. */
  readonly #rejectedUntil = new LRUCache<string, number>({ max: MAX_REMEMBERED })

  constructor(kernel: Pick<Kernel, 'store' | 'clock' | 'resilience'>) {
    this.#kernel = kernel
  }

  /** Counts a failure of the request's client. Throws `E_TOO_MANY_ATTEMPTS` */
  async count(): Promise<void> {
    const key = failedSignInsKey(currentContext().ip)
    const leftMs = (this.#rejectedUntil.get(key) ?? 0) - this.#nowMs()
    if (leftMs > 0) throw tooMany(leftMs / 1_000)
    if ((await this.#increment(key)) <= MAX_FAILED_SIGN_INS) return
    // The time is read after the store call, so the rejection does not end before the counter expires.
    this.#rejectedUntil.set(key, this.#nowMs() + WINDOW_SECONDS * 1_000)
    throw tooMany(WINDOW_SECONDS)
  }

  #nowMs(): number {
    return this.#kernel.clock.now().getTime()
  }

  /** Without the store there is no limit: the credential is wrong, and its 401 must not depend on the store. */
  async #increment(key: string): Promise<number> {
    const { store, resilience } = this.#kernel
    try {
      return await store.increment(null, key, 1, WINDOW_SECONDS)
    } catch (error) {
      if (!DependencyUnavailable.matches(error)) throw error
      const operation = 'signIn.limit'
      resilience.report(
        { dependency: 'redis', operation, tenantId: null, policy: 'fail-open', errorCode: error.code },
        error,
      )
      return 0
    }
  }
}

const tooMany = (retryAfterSeconds: number) =>
  TooManyAttempts('Too many wrong tokens or codes came from this address. Wait, or send a correct admin token.', {
    retryAfterSeconds,
  })
