/** Series of the health checks. The checks run in the background of scrapes, as `/readyz` runs them. */
import { cachedGauges } from '../metrics/cached-gauges.ts'
import type { Series } from '../metrics/metrics.ts'
import type { CheckResult, Health } from './health.ts'

const EVERY_MS = 5_000

export function healthSeries(health: Pick<Health, 'report'>): Series[] {
  const byCheck =
    (value: (result: CheckResult) => number) =>
    ({ checks }: { readonly checks: Readonly<Record<string, CheckResult>> }) =>
      Object.entries(checks).map(([check, result]) => ({ labels: { check }, value: value(result) }))
  return cachedGauges(
    () => health.report(),
    [
      {
        name: 'multitenancy_health_check',
        help: 'Health checks: 1 pass, 0 fail',
        samples: byCheck(({ status }) => (status === 'pass' ? 1 : 0)),
      },
      {
        name: 'multitenancy_health_check_duration_seconds',
        help: 'Duration of the last run of a health check',
        samples: byCheck(({ durationMs }) => durationMs / 1_000),
      },
    ],
    { everyMs: EVERY_MS },
  )
}
