import { z } from 'zod'
import { parsed } from '../../kernel/base/validate.ts'
import type { AccessResult } from '../../kernel/shares/contributions.ts'
import { defineSatellite, optionTexts } from '../../tenancy/satellite.ts'
import { diagnoses } from './doctor.ts'
import { SsoDomainNotAllowed, SsoFailed, SsoNotEnabled, SsoProviderUnavailable, SsoRedirectUriTaken } from './errors.ts'
import { operations } from './operations.ts'
import { bindingOf } from './records.ts'
import { Sso } from './sso.ts'
import { tables } from './tables.ts'

export type { SsoCallback } from './callback.ts'
export type { SsoClaims } from './claims.ts'
export type { ConnectionReport } from './connection-test.ts'
export {
  type Reason,
  SsoDomainNotAllowed,
  SsoFailed,
  SsoNotEnabled,
  SsoProviderUnavailable,
  SsoRedirectUriTaken,
} from './errors.ts'
export type { SsoSettings } from './settings.ts'
export type { Sso, SsoFinishOptions, SsoLogin, SsoStart, SsoStartOptions } from './sso.ts'

const Options = z.strictObject({
  /** Time limit of one request to a provider, in ms. */
  timeoutMs: z.int().min(100).max(30_000).default(5_000),
})
export type SsoOptions = z.input<typeof Options>

/** Only the host knows by which means a user has signed in. */
async function accessOf({ records }: Sso, tenantId: string): Promise<AccessResult> {
  if (!(await records.isEnforced(tenantId))) return { passed: true, message: 'Single sign-on is not enforced.' }
  return {
    passed: null,
    message: 'Users of the tenant must sign in by single sign-on.',
    remedy: { operation: 'sso.disable', params: { id: tenantId } },
  }
}

export const sso = (options: SsoOptions = {}) => {
  const settings = parsed(Options, options, 'sso')
  return defineSatellite({
    name: 'sso',
    summary: "Single sign-on by OpenID Connect with each tenant's own identity provider",
    sharedOptions: optionTexts(settings),
    tables,
    tenantTables: ['sso'],
    encryptedColumns: [{ table: 'sso', key: 'tenant_id', column: 'client_secret', binding: bindingOf }],
    service: (kernel, tenants) => new Sso(kernel, tenants, settings),
    operations,
    console: new URL('./console/index.tsx', import.meta.url),
    errors: [SsoFailed, SsoNotEnabled, SsoRedirectUriTaken, SsoDomainNotAllowed, SsoProviderUnavailable],
    doctor: diagnoses,
    accessChecks: [{ name: 'singleSignOn', read: (sso, { tenantId }) => accessOf(sso, tenantId) }],
  })
}

export default sso
