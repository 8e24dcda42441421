/** Identities that a host's `identify` returns: validated, with their permissions. */
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { May } from '../kernel/api/permissions.ts'
import type { Grant } from '../kernel/base/context.ts'
import { parsed } from '../kernel/base/validate.ts'
import { fingerprint } from '../kernel/crypto/crypto.ts'
import { TenantId } from '../tenants/tenant/tenant.ts'
import type { Identity } from './tokens.ts'

const MAX_CACHED = 1_000
/** Of an e-mail address. */
const MAX_NAME_LENGTH = 254

const HostIdentity = z.strictObject({
  /** Becomes the actor in the audit log. */
  name: z.string().min(1).max(MAX_NAME_LENGTH),
  /** Patterns of operations, as of a token. */
  may: May,
  /** Ids of the tenants that it is limited to. Absent: all. */
  tenants: z.array(TenantId).min(1).optional(),
})
export type HostIdentity = z.input<typeof HostIdentity>

/**
 * The caller of a request: the host's own session, or a header of a trusted proxy. Undefined: not known, the session cookie decides.
 * An error rejects the request.
 *
 * @param request without its body
 */
export type Identify = (request: Request) => HostIdentity | undefined | Promise<HostIdentity | undefined>

type GrantOf = (may: readonly string[], tenants: readonly string[] | null) => Grant

/** The function throws an error for an invalid identity, or a pattern that matches no operation. */
export function hostIdentities(
  identify: Identify,
  grantOf: GrantOf,
): (request: Request) => Promise<Identity | undefined> {
  const grants = new LRUCache<string, Grant>({ maxSize: MAX_CACHED, sizeCalculation: () => 1 })
  const checked = (given: HostIdentity) => {
    try {
      const { name, may, tenants = null } = parsed(HostIdentity, given, 'identify')
      const key = JSON.stringify([may, tenants])
      const grant = grants.get(key) ?? grantOf(may, tenants)
      grants.set(key, grant)
      return { name, grant }
    } catch (error) {
      // A mistake of the host, not of the caller: logged, and a 500.
      throw new Error(`identify returned an invalid identity: ${(error as Error).message}`, { cause: error })
    }
  }
  return async ({ url, method, headers }) => {
    const given = await identify(new Request(url, { method, headers }))
    if (given === undefined || given === null) return undefined
    const { name, grant } = checked(given)
    const id = `identify:${name}` // differs from the id of a configured token with the same name
    return { id, name, grant, fingerprint: fingerprint(id), tokenId: null }
  }
}
