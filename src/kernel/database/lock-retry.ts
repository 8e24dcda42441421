/**
 * Retries work that locks tables in constant use. It waits briefly, because later queries wait behind it, and stops before PostgreSQL
 * looks for deadlocks (after 1 s), so that PostgreSQL aborts no other session in its favour.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { sqlState } from './database.ts'

/** What such work sets `lock_timeout` to. */
export const LOCK_TIMEOUT_MS = 300
const RETRY_DELAY_MS = 2_000
/** The SQL states of an unavailable lock. */
const BUSY_STATES = new Set(['55P03', '40P01'])

export interface RetryOptions {
  /** How often it may find something locked; default 1. */
  readonly maxAttempts?: number
  readonly signal?: AbortSignal | undefined
  /** Default 2 s. */
  readonly retryDelayMs?: number
}

/** Returns undefined if another session held a lock at each attempt. Each attempt calls `work`; other errors are thrown. */
export async function retryOnLock<T>(
  work: () => Promise<T>,
  { maxAttempts = 1, signal, retryDelayMs = RETRY_DELAY_MS }: RetryOptions = {},
): Promise<T | undefined> {
  for (let attemptsLeft = maxAttempts; ; ) {
    try {
      return await work()
    } catch (error) {
      if (!BUSY_STATES.has(sqlState(error) ?? '')) throw error
      attemptsLeft -= 1
      if (attemptsLeft <= 0 || signal?.aborted) return undefined
      await sleep(retryDelayMs, undefined, { signal }).catch(() => undefined)
    }
  }
}
