/** Gauges whose samples come from one cached query. */
import { type RefreshOptions, refreshed } from '../base/cached-query.ts'
import type { Sample, Series } from './metrics.ts'

/** Share of time for queries whose cost grows with the number of tenants. */
export const SMALL_SHARE = 0.01
/** Share of time for queries whose cost grows with the number of waiting rows. */
export const MEDIUM_SHARE = 0.1

interface CachedGauge<T> {
  readonly name: string
  readonly help: string
  readonly samples: (loaded: T) => Iterable<Sample>
}

export function cachedGauges<T>(
  load: () => Promise<T>,
  gauges: readonly CachedGauge<T>[],
  options: RefreshOptions = {},
): Series[] {
  const cached = refreshed(load, options)
  return gauges.map(({ name, help, samples }) => ({
    name,
    help,
    type: 'gauge',
    collect: async () => samples(await cached.get()),
    ageSeconds: cached.ageSeconds,
    stop: cached.stop,
  }))
}
