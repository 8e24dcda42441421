import { defineSatellite, optionTexts } from '../../tenancy/satellite.ts'
import { QuotaThresholdReached, QuotaTracked, TenantQuotaExceeded } from './events.ts'
import { operations } from './operations.ts'
import { postedTracks } from './posted-tracks.ts'
import { Quotas, type QuotasOptions } from './quotas.ts'
import { tables } from './tables.ts'

export type { Decision } from './decision.ts'
export { QuotaExceeded, QuotaExceeded as QuotaExceededException, QuotaNotFound } from './errors.ts'
export { QuotaThresholdReached, QuotaTracked, TenantQuotaExceeded } from './events.ts'
export type { QuotaAmount, QuotaSnapshot } from './outcome.ts'
export type { QuotasOptions } from './quotas.ts'

export const quotas = (options: QuotasOptions = {}) =>
  defineSatellite({
    name: 'quotas',
    summary: 'Limits of plans: exact counters of a UTC day, rejection with 429',
    sharedOptions: optionTexts({ headers: options.headers ?? true }),
    tables,
    tenantTables: ['quota_alerts'],
    events: [QuotaTracked, QuotaThresholdReached, TenantQuotaExceeded],
    service: (kernel, tenants) => new Quotas(kernel, tenants, options),
    operations,
    outbox: [postedTracks],
    metrics: (quotas) => [quotas.counts.series()],
    stop: (quotas) => quotas.alerts.stop(),
  })

export default quotas
