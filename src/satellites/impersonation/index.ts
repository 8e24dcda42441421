import { parsed } from '../../kernel/base/validate.ts'
import { defineSatellite, optionTexts } from '../../tenancy/satellite.ts'
import { TenantDeleted } from '../../tenants/tenant/events.ts'
import { Forbidden, ImpersonationInvalid } from './errors.ts'
import { ImpersonationEnded, ImpersonationStarted } from './events.ts'
import { Impersonations } from './impersonation.ts'
import { operations } from './operations.ts'
import { contributions } from './overview.ts'
import { on } from './part.ts'
import { searchProviders } from './search.ts'
import { type ImpersonationOptions, Options, withDefaults } from './settings.ts'
import { tables } from './tables.ts'

export type { ActiveImpersonation } from '../../kernel/base/context.ts'
export { ImpersonationInvalid } from './errors.ts'
export { ImpersonationEnded, ImpersonationStarted } from './events.ts'
export type { Impersonations } from './impersonation.ts'
export type { Impersonation, ImpersonationWithToken } from './resource.ts'
export type { ImpersonationOptions } from './settings.ts'

export const impersonation = (options: ImpersonationOptions = {}) => {
  const durations = withDefaults(parsed(Options, options, 'impersonation'))
  return defineSatellite({
    name: 'impersonation',
    summary: "Impersonation of a tenant's user: with a reason and a time limit, every request in the audit log",
    sharedOptions: optionTexts(durations),
    tables,
    tenantTables: ['impersonations'],
    events: [ImpersonationStarted, ImpersonationEnded],
    service: (kernel) => new Impersonations(kernel, durations),
    operations,
    console: new URL('./console/index.tsx', import.meta.url),
    ...contributions,
    searchProviders,
    errors: [ImpersonationInvalid, Forbidden],
    listeners: [on(TenantDeleted, 'within', (all, { tenantId }) => all.endAll(tenantId))],
  })
}

export default impersonation
