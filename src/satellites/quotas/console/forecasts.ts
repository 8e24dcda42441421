/** Forecasts of the quotas of a tenant. Metrics are read if there is a gauge with a limit, and if metrics are enabled. */
import { useMemo } from 'react'
import type { Result } from '../../../console/api/contract.ts'
import { useOperation } from '../../../console/data/queries.ts'
import { averagesOf, type Forecast, forecastOf, rateDays } from './forecast.ts'
import type { Quota } from './quota.ts'

const MAX_COUNTS = 200

export function useForecasts(
  id: string,
  quotas: Result<'quotas.get'> | undefined,
): (quota: Quota) => Forecast | undefined {
  const period = rateDays(new Date())
  const { to } = period
  const { data: counts } = useOperation(
    'metrics.list',
    { params: { id }, query: { ...period, limit: MAX_COUNTS } },
    { enabled: quotas?.gauges.some((gauge) => quotas.limits[gauge] !== undefined) ?? false },
  )
  return useMemo(() => {
    const averages = counts && averagesOf(counts.data, counts.nextCursor === null, to)
    return ({ quota, usage, limit, isGauge = false }) =>
      forecastOf({ usage, limit, isGauge, average: averages?.get(quota), now: new Date() })
  }, [counts, to])
}
