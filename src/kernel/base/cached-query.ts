/**
 * Caches a value from the database, and loads it again every two seconds while it is requested, one load at a time. A value is older
 * than `STALE_AFTER_MS` only if loading fails or exceeds the time that a caller waits.
 */
import { asSystem } from './context.ts'
import { withTimeout } from './with-timeout.ts'

const REFRESH_MS = 2_000
const WAIT_TIMEOUT_MS = 1_000
/** The timeout of a load: a statement without a response is abandoned with its connection. */
export const LOADED_WITHIN_MS = 30_000
const STALE_AFTER_MS = 10_000
/** Loading continues for this time after the last request: longer than a usual scrape interval. */
const INTEREST_MS = 60_000

export interface Refreshed<T> {
  get(): Promise<T>
  stop(): void
}

export function refreshed<T>(load: () => Promise<T>): Refreshed<T> {
  let value: { loaded: T; at: number } | undefined
  let loading: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let lastRequestedAt = 0

  const refresh = () => {
    loading ??= asSystem(load)
      .then((loaded) => {
        value = { loaded, at: performance.now() }
      })
      .finally(() => {
        loading = undefined
      })
    return loading
  }
  const stop = () => {
    clearInterval(timer)
    timer = undefined
  }
  const tick = () => {
    if (performance.now() - lastRequestedAt > INTEREST_MS) stop()
    else refresh().catch(() => undefined) // the next question finds it stale and reports the failure
  }

  return {
    async get() {
      lastRequestedAt = performance.now()
      timer ??= setInterval(tick, REFRESH_MS).unref()
      if (!value || performance.now() - value.at > STALE_AFTER_MS)
        await withTimeout(refresh(), WAIT_TIMEOUT_MS, () => new Error('loading takes too long')).catch((error) => {
          if (!value) throw error
        })
      if (!value) throw new Error('loaded, yet no value')
      return value.loaded
    },
    stop,
  }
}
