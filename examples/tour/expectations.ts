/** What the tour relies on: it stops with plain words at the first thing that is not as it should be. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ErrorType, TenancyError } from 'tenantry'
import { act } from './print.ts'

/** The service is another process: what it changes is heard here within moments. */
const DELIVERED_WITHIN_MS = 5_000
const POLL_INTERVAL_MS = 10

export function expectThat(isSo: boolean, claim: string): void {
  if (!isSo) throw new Error(`this should be so, and is not: ${claim}`)
}

/** What `work` answers, once nothing of Tenantry's refuses it any more. */
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

/** Does `work` until it is refused with `type`, and prints how. */
export async function expectRejection(what: string, type: ErrorType, work: () => Promise<unknown>): Promise<void> {
  const deadline = Date.now() + DELIVERED_WITHIN_MS
  for (;;) {
    const error = await failureOf(work)
    if (type.matches(error)) {
      const retry = error.retryAfterSeconds === undefined ? '' : `, again in ${error.retryAfterSeconds} s`
      return act(what, `${error.code} (${error.message.replace(/\.$/, '')}${retry})`)
    }
    if (Date.now() > deadline) throw new Error(`${what} should be refused with ${type.code}, not: ${error ?? 'done'}`)
    await sleep(POLL_INTERVAL_MS)
  }
}

/** Undefined when `work` succeeds. */
export async function failureOf(work: () => Promise<unknown>): Promise<any> {
  try {
    await work()
    return undefined
  } catch (error) {
    return error
  }
}
