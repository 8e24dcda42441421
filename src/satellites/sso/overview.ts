/** Single sign-on as a check of a tenant's access. */
import type { AccessRequest, AccessResult, Contributions } from '../../kernel/shares/contributions.ts'
import type { Sso } from './sso.ts'

export const contributions: Contributions<Sso> = { accessChecks: [{ name: 'singleSignOn', read: enforced }] }

/** Only the host knows by which means a user has signed in. */
async function enforced({ records }: Sso, { tenantId }: AccessRequest): Promise<AccessResult> {
  return (await records.isEnforced(tenantId))
    ? {
        passed: null,
        message: 'Users of the tenant must sign in by single sign-on.',
        remedy: { operation: 'sso.disable', params: { id: tenantId } },
      }
    : { passed: true, message: 'Single sign-on is not enforced.' }
}
