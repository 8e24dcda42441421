/**
 * Caches a value from the database, and loads it again every two seconds while it is requested, one load at a time. An expensive value is
 * loaded less often (`maxShare`). Otherwise, a value is older than `STALE_AFTER_MS` only if loading fails or exceeds the time that a caller
 * waits.
 */
import { asSystem } from './context.ts'
import { DependencyUnavailable } from './errors.ts'
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
  /** Seconds since the value was loaded; without a value, since the first request. Undefined before the first request. */
  ageSeconds(): number | undefined
  stop(): void
}

export interface RefreshOptions {
  /** Interval of loads; default 2,000. */
  readonly everyMs?: number
  /** Maximum share of time for loading: with 0.01, a load of one second is followed by 100 seconds without one. Default 1. */
  readonly maxShare?: number
}

export function refreshed<T>(
  load: () => Promise<T>,
  { everyMs = REFRESH_MS, maxShare = 1 }: RefreshOptions = {},
): Refreshed<T> {
  let value: { loaded: T; at: number } | undefined
  let firstRequestedAt: number | undefined
  let pauseMs = 0
  let loading: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let lastRequestedAt = 0

  const refresh = () => {
    const started = performance.now()
    loading ??= asSystem(load)
      .then((loaded) => {
        value = { loaded, at: performance.now() }
      })
      .finally(() => {
        pauseMs = maxShare < 1 ? (performance.now() - started) / maxShare : 0
        loading = undefined
      })
    return loading
  }
  const ageMs = () => (value ? performance.now() - value.at : Number.POSITIVE_INFINITY)
  const stop = () => {
    clearInterval(timer)
    timer = undefined
  }
  const tick = () => {
    if (performance.now() - lastRequestedAt > INTEREST_MS) stop()
    else if (ageMs() >= pauseMs) refresh().catch(() => undefined) // the next request finds the value stale and reports the failure
  }

  return {
    async get() {
      lastRequestedAt = performance.now()
      firstRequestedAt ??= lastRequestedAt
      timer ??= setInterval(tick, everyMs).unref()
      if (ageMs() > Math.max(STALE_AFTER_MS, pauseMs + 2 * everyMs))
        await withTimeout(refresh(), WAIT_TIMEOUT_MS, () =>
          DependencyUnavailable('Loading takes too long. It continues.', { retryAfterSeconds: 1 }),
        ).catch((error) => {
          if (!value) throw error
        })
      if (!value) throw new Error('loaded, yet no value')
      return value.loaded
    },
    ageSeconds() {
      const since = value?.at ?? firstRequestedAt
      return since === undefined ? undefined : (performance.now() - since) / 1_000
    },
    stop,
  }
}
