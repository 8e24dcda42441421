import { z } from 'zod'
import { parsed } from '../../kernel/base/validate.ts'
import { defineSatellite, optionTexts } from '../../tenancy/satellite.ts'
import { TenantCloned, TenantPurged } from '../../tenants/tenant/events.ts'
import { FeatureFlags } from './feature-flags.ts'
import { FeatureFlagChanged } from './model/events.ts'
import { tables } from './model/tables.ts'
import { ofrepOperations } from './ofrep.ts'
import { operations } from './operations.ts'
import { on } from './part.ts'

export type { Explanation, FeatureFlags } from './feature-flags.ts'
export { FeatureFlagChanged } from './model/events.ts'
export type { FeatureFlag, FlagRequest, FlagSettings } from './model/flag.ts'
export type { Evaluation, EvaluationContext, Reason } from './model/rollout.ts'

const Options = z.strictObject({
  /** Seconds after which an unchanged flag is read again. */
  cacheTtl: z.number().min(1).max(86_400).default(60),
})
export type FeatureFlagsOptions = z.input<typeof Options>

export const featureFlags = (options: FeatureFlagsOptions = {}) => {
  const { cacheTtl } = parsed(Options, options, 'featureFlags')
  return defineSatellite({
    name: 'featureFlags',
    summary: 'Flags for each tenant: on, off, or on for a stable percentage; OpenFeature and OFREP',
    sharedOptions: optionTexts({ cacheTtl }),
    tables,
    tenantTables: ['feature_flags'],
    events: [FeatureFlagChanged],
    service: (kernel) => new FeatureFlags(kernel, cacheTtl),
    start: (flags) => flags.start(),
    operations: [...operations, ...ofrepOperations],
    listeners: [
      on(TenantCloned, 'within', (flags, { sourceId, tenantId }) => flags.copy(sourceId, tenantId)),
      on(TenantPurged, 'within', (flags, { tenantId }) => flags.forget(tenantId)),
    ],
    metrics: (flags) => flags.series(),
    stop: (flags) => flags.stop(),
  })
}

export default featureFlags
