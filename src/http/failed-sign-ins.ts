/**
 * Limits failed sign-ins per client address, over all processes: wrong tokens and codes receive a 401 up to the limit, then a 429. A correct
 * token or code is neither counted nor rejected.
 */
import { currentContext } from '../kernel/base/context.ts'
import { defineError } from '../kernel/base/errors.ts'
import { networkOf } from '../kernel/egress/addresses.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { AttemptLimit } from '../kernel/store/attempt-limit.ts'

export const MAX_FAILED_SIGN_INS = 20
const WINDOW_SECONDS = 60

export const TooManyAttempts = defineError('E_TOO_MANY_ATTEMPTS', 429, 'Too many failed sign-ins', {
  headers: { 'Retry-After': 'Seconds until a wrong token receives a 401 again; a correct one always passes' },
})

/** The key of the service in the store. Clients of unknown address share one. */
export const failedSignInsKey = (ip: string | null): string => `failed-sign-ins:${networkOf(ip ?? '') ?? 'unknown'}`

export class FailedSignIns {
  readonly #limit: AttemptLimit

  constructor(kernel: Pick<Kernel, 'store' | 'clock' | 'resilience'>) {
    this.#limit = new AttemptLimit(kernel, {
      operation: 'signIn.limit',
      max: MAX_FAILED_SIGN_INS,
      windowSeconds: WINDOW_SECONDS,
    })
  }

  /** Counts a failure of the request's client. Throws `E_TOO_MANY_ATTEMPTS` */
  async count(): Promise<void> {
    const retryAfterSeconds = await this.#limit.count(failedSignInsKey(currentContext().ip))
    if (retryAfterSeconds === 0) return
    throw TooManyAttempts(
      'Too many wrong tokens or codes came from this address. Wait, or send a correct admin token.',
      {
        retryAfterSeconds,
      },
    )
  }
}
