/** Forecasts of the quotas of a tenant. Daily amounts are read if a gauge has a limit, and if a module has them. */
import { useMemo } from 'react'
import type { Result } from '../../../console/api/contract.ts'
import { useOperation } from '../../../console/data/queries.ts'
import { dailyAmounts } from '../../../console/routing/registry.ts'
import { averagesOf, type Forecast, forecastOf, rateDays } from './forecast.ts'
import type { Quota } from './quota.ts'

export function useForecasts(
  id: string,
  quotas: Result<'quotas.get'> | undefined,
): (quota: Quota) => Forecast | undefined {
  const source = dailyAmounts()
  const days = rateDays(new Date())
  const { to } = days
  const hasGauge = quotas?.gauges.some((gauge) => quotas.limits[gauge] !== undefined) ?? false
  const { data, isPlaceholderData } = useOperation(
    source?.read ?? 'quotas.get',
    source?.input(id, days) ?? { params: { id } },
    { enabled: source !== undefined && hasGauge },
  )
  const read = isPlaceholderData ? undefined : data // the former amounts can be those of another tenant
  return useMemo(() => {
    const found = source && read && source.amountsOf(read)
    const averages = found && averagesOf(found.amounts, found.isComplete, to)
    return ({ quota, usage, limit, isGauge = false }) =>
      forecastOf({ usage, limit, isGauge, average: averages?.get(quota), now: new Date() })
  }, [source, read, to])
}
