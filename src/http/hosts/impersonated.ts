/**
 * The common part of the impersonation middleware of all hosts: the token of a request and the context of its handler.
 *
 * A request with two tokens has no valid token, because another reader could use the other one. An empty token is invalid.
 */
import { type ActiveImpersonation, currentContext, enterContext, impersonated } from '../../kernel/base/context.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import type { GuardedRequest } from '../../tenants/guard/strategies.ts'
import type { Tenant } from '../../tenants/handles/handle.ts'
import { TenantNotIdentified } from '../../tenants/tenant/errors.ts'
import { isWithoutTenant } from './guarded.ts'

const HEADER = 'x-impersonation-token'
/** A value that is never a valid token. */
const INVALID_TOKEN = ''

export interface ImpersonationOptions {
  /** The header of the token; default `x-impersonation-token`. */
  readonly header?: string
  /** The cookie of the token, if the header is missing; default: none. Set it HttpOnly, Secure and SameSite=Strict. */
  readonly cookie?: string
}

export interface ImpersonationCallbacks {
  /** Called in the context of the handler; undefined without an impersonation. */
  readonly admitted: (impersonation: ActiveImpersonation | undefined) => void
  readonly rejected: (error: unknown) => void
}

export type ImpersonationMiddleware = (
  request: GuardedRequest,
  tenant: Tenant | undefined,
  callbacks: ImpersonationCallbacks,
) => void

/**
 * Continues synchronously without a token, and if the guard admitted the request without a tenant: such a path has no users. Rejects a
 * token without a previous guard. Throws if no audit log would record the requests.
 */
export function impersonationMiddleware(
  by: Impersonating,
  options: ImpersonationOptions = {},
): ImpersonationMiddleware {
  const authenticator = by.authenticator()
  const tokenOf = tokenReader(options)
  return (request, tenant, { admitted, rejected }) => {
    const token = tokenOf(request)
    if (token === undefined) return admitted(undefined)
    if (!tenant) return isWithoutTenant(request) ? admitted(undefined) : rejected(unguarded())
    const { method, path, raw } = request
    authenticator
      .authenticate(tenant.id, token, { method, path, raw })
      .then((impersonation) =>
        enterContext(impersonated(currentContext(), impersonation), () => admitted(impersonation)),
      )
      .catch(rejected)
  }
}

const unguarded = () =>
  TenantNotIdentified(
    'The request has an impersonation token, but no guard has resolved its tenant. Register guard() before impersonation().',
  )

function tokenReader({
  header = HEADER,
  cookie,
}: ImpersonationOptions): (request: GuardedRequest) => string | undefined {
  const name = header.toLowerCase()
  return (request) => {
    const inHeader = request.header(name)
    const inCookies = cookie === undefined ? [] : cookiesOf(request.header('cookie'), cookie)
    const all = [...(inHeader === undefined ? [] : [inHeader]), ...inCookies]
    if (all.length === 0) return undefined
    const [token] = all
    return all.length === 1 ? token : INVALID_TOKEN
  }
}

const cookiesOf = (header: string | undefined, name: string): string[] =>
  (header?.split(';') ?? []).flatMap((pair) => {
    const [key, ...value] = pair.split('=')
    return key?.trim() === name ? [value.join('=').trim()] : []
  })
