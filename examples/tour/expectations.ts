/** Assertions of the tour, which stops at the first failure. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ErrorType, TenancyError } from 'tenantry'
import { act } from './print.ts'

/** The service is another process: its changes reach this one after a short delay. */
const DELIVERED_WITHIN_MS = 5_000
const POLL_INTERVAL_MS = 10

export function expectThat(isSo: boolean, claim: string): void {
  if (!isSo) throw new Error(`expectation failed: ${claim}`)
}

/** Retries `work` while Tenantry rejects it, and returns its result. */
export async function eventually<T>(work: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + DELIVERED_WITHIN_MS
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof TenancyError) || Date.now() > deadline) throw error
      await sleep(POLL_INTERVAL_MS)
    }
  }
}

/** Repeats `work` until it is rejected with `type`, and prints the error. */
export async function expectRejection(what: string, type: ErrorType, work: () => Promise<unknown>): Promise<void> {
  const deadline = Date.now() + DELIVERED_WITHIN_MS
  for (;;) {
    const error = await failureOf(work)
    if (type.matches(error)) {
      const retry = error.retryAfterSeconds === undefined ? '' : `, retry in ${error.retryAfterSeconds} s`
      return act(what, `${error.code} (${error.message.replace(/\.$/, '')}${retry})`)
    }
    if (Date.now() > deadline)
      throw new Error(`${what} must be rejected with ${type.code}, but the result is: ${error ?? 'success'}`)
    await sleep(POLL_INTERVAL_MS)
  }
}

/** Returns undefined if `work` succeeds. */
export async function failureOf(work: () => Promise<unknown>): Promise<any> {
  try {
    await work()
    return undefined
  } catch (error) {
    return error
  }
}
