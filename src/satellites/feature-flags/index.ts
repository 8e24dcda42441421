import { z } from 'zod'
import { parsed } from '../../kernel/base/validate.ts'
import { sharedNames } from '../../kernel/declarations/declared-names.ts'
import { defineSatellite, type NamedSatellite, optionTexts, type ServiceType } from '../../tenancy/satellite.ts'
import { TenantCloned, TenantPurged } from '../../tenants/tenant/events.ts'
import { FeatureFlags } from './feature-flags.ts'
import { FeatureFlagChanged } from './model/events.ts'
import { FlagKey } from './model/flag.ts'
import { tables } from './model/tables.ts'
import { ofrepOperations } from './ofrep.ts'
import { operations } from './operations.ts'
import { on } from './part.ts'

export type { Explanation, FeatureFlags } from './feature-flags.ts'
export { FeatureFlagChanged } from './model/events.ts'
export type { FeatureFlag, FlagRequest, FlagSettings } from './model/flag.ts'
export type { Evaluation, EvaluationContext, Reason } from './model/rollout.ts'

const Options = z.strictObject({
  cacheTtl: z.number().min(1).max(86_400).default(60),
  flags: z.array(FlagKey).readonly().optional(),
})

export interface FeatureFlagsOptions<Flag extends string = string> {
  /** Seconds after which an unchanged flag is read again; default 60. */
  readonly cacheTtl?: number
  /** The flags that exist. If given, other flags are rejected, and the compiler knows the names. */
  readonly flags?: readonly Flag[]
}

interface FeatureFlagsType extends ServiceType {
  readonly service: FeatureFlags<this['names']['flag']>
}

/**
 * Satellite with flags for each tenant.
 *
 * @throws E_INVALID_REQUEST for invalid options
 * @example
 *   const tenancy = await createTenancy({ ..., satellites: [featureFlags({ flags: ['new-editor'] })] })
 *   await tenancy.featureFlags.isEnabled('new-editor', { tenantId: 'acme' })
 */
export const featureFlags = <const Flag extends string = never>(
  options: FeatureFlagsOptions<Flag> = {},
): NamedSatellite<'featureFlags', FeatureFlagsType, { readonly flag: Flag }, 'feature.flag_changed'> => {
  const settings = parsed(Options, options, 'featureFlags')
  return defineSatellite({
    name: 'featureFlags',
    console: new URL('./console/index.tsx', import.meta.url),
    summary: 'Flags for each tenant: on, off, or on for a stable percentage; OpenFeature and OFREP',
    sharedOptions: { ...optionTexts({ cacheTtl: settings.cacheTtl }), ...sharedNames('flags', settings.flags) },
    tables,
    tenantTables: ['feature_flags'],
    events: [FeatureFlagChanged],
    service: (kernel) => new FeatureFlags(kernel, settings),
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
