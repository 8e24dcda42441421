import { parsed } from '../../kernel/base/validate.ts'
import { sharedNames } from '../../kernel/declarations/declared-names.ts'
import { outboxEntry } from '../../kernel/outbox/kinds.ts'
import { defineSatellite, type NamedSatellite, optionTexts, type ServiceType } from '../../tenancy/satellite.ts'
import { commands } from './commands.ts'
import { jobs, schedule } from './jobs.ts'
import { INCREMENT, Increment } from './key.ts'
import { type MetricsOptions, TenantMetrics } from './metrics.ts'
import { operations } from './operations.ts'
import { Options } from './options.ts'
import { tables } from './tables.ts'

export type { Metric, MetricOfTenant } from './metric.ts'
export type { MetricsOptions, TenantMetrics } from './metrics.ts'
export type { MetricFilter } from './readings.ts'

interface MetricsType extends ServiceType {
  readonly service: TenantMetrics<this['names']['metric']>
}

/**
 * Satellite that counts the usage of tenants by day.
 *
 * @throws E_INVALID_REQUEST for invalid options
 * @example
 *   const tenancy = await createTenancy({ ..., satellites: [metrics({ metrics: ['notes'] })] })
 *   await tenancy.metrics.increment('acme', 'notes')
 */
export const metrics = <const Key extends string = never>(
  options: MetricsOptions<Key> = {},
): NamedSatellite<'metrics', MetricsType, { readonly metric: Key }> => {
  const settings = parsed(Options, options, 'metrics')
  return defineSatellite({
    name: 'metrics',
    console: new URL('./console/index.tsx', import.meta.url),
    summary: 'Usage of tenants by day and key: requests, errors and bytes of guarded routes, and keys of the host',
    sharedOptions: {
      ...optionTexts({ retentionDays: settings.retentionDays }),
      ...sharedNames('metrics', settings.metrics),
    },
    tables,
    tenantTables: ['metric_sums'],
    service: (kernel, tenants) => new TenantMetrics(kernel, tenants, settings),
    operations,
    commands,
    outbox: [outboxEntry(INCREMENT, Increment, (metrics: TenantMetrics, entries) => metrics.posted(entries))],
    jobs,
    schedule,
    traffic: (metrics) => metrics.traffic,
    stop: (metrics) => metrics.stop(),
  })
}

export default metrics
