import { parsed } from '../../kernel/base/validate.ts'
import { sharedNames } from '../../kernel/declarations/declared-names.ts'
import { defineSatellite, type NamedSatellite, optionTexts, type ServiceType } from '../../tenancy/satellite.ts'
import { QuotaThresholdReached, QuotaTracked, TenantQuotaExceeded } from './events.ts'
import { operations } from './operations.ts'
import { Options, type QuotasOptions } from './options.ts'
import { contributions } from './overview.ts'
import { postedTracks } from './posted-tracks.ts'
import { Quotas } from './quotas.ts'
import { tables } from './tables.ts'

export type { Decision } from './decision.ts'
export { QuotaExceeded, QuotaExceeded as QuotaExceededException, QuotaNotFound } from './errors.ts'
export { QuotaThresholdReached, QuotaTracked, TenantQuotaExceeded } from './events.ts'
export type { QuotasOptions } from './options.ts'
export type { QuotaAmount, QuotaSnapshot } from './outcome.ts'
export type { QuotaUse, RankingFilter } from './ranking.ts'

interface QuotasType extends ServiceType {
  readonly service: Quotas<this['names']['quota']>
}

/**
 * Satellite that limits what tenants use by the limits of their plans. The compiler knows the names in the limits of the
 * plans, and those in `unlimited`.
 *
 * @throws E_INVALID_REQUEST for invalid options
 * @example
 *   const tenancy = await createTenancy({ ..., plans, satellites: [quotas({ unlimited: ['api-calls'] })] })
 *   await tenancy.quotas.consume('acme', 'exports')
 */
export const quotas = <const Quota extends string = never>(
  options: QuotasOptions<Quota> = {},
): NamedSatellite<
  'quotas',
  QuotasType,
  { readonly quota: Quota },
  'quota.threshold_reached' | 'tenant.quota_exceeded'
> => {
  const settings = parsed(Options, options, 'quotas')
  return defineSatellite({
    name: 'quotas',
    console: new URL('./console/index.tsx', import.meta.url),
    summary: 'Limits of plans: exact counters of a UTC day, rejection with 429',
    sharedOptions: {
      ...optionTexts({ headers: settings.headers ?? true }),
      ...sharedNames('unlimited', settings.unlimited),
    },
    tables,
    tenantTables: ['quota_alerts', 'quota_usage'],
    events: [QuotaTracked, QuotaThresholdReached, TenantQuotaExceeded],
    service: (kernel, tenants) => new Quotas(kernel, tenants, settings),
    operations,
    outbox: [postedTracks],
    ...contributions,
    metrics: (quotas) => [quotas.counts.series()],
    stop: async ({ alerts, usageRecords }) => {
      await alerts.stop()
      await usageRecords.stop()
    },
  })
}

export default quotas
