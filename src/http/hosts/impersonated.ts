/**
 * What the impersonation of all hosts shares: where a request has its token, and the context that its handler runs in.
 *
 * A request has one token or none. Two of them, in two places or in one, are no token: whoever reads the other one would take
 * the request for somebody else's. An empty one is one that is not valid.
 */
import { type ActiveImpersonation, currentContext, enterContext, impersonated } from '../../kernel/base/context.ts'
import type { GuardedTenant } from '../../tenants/guard/guard.ts'
import type { Impersonating } from '../../tenants/guard/impersonation-hook.ts'
import type { GuardedRequest } from '../../tenants/guard/strategies.ts'
import { TenantNotIdentified } from '../../tenants/tenant/errors.ts'
import { isWithoutTenant } from './guarded.ts'

const HEADER = 'x-impersonation-token'
/** What no token is. */
const NOT_ONE = ''

export interface ImpersonationOptions {
  /** The header that has the token; default `x-impersonation-token`. */
  readonly header?: string
  /** The cookie that has it where the header is not there; default: none. Make it HttpOnly, Secure and SameSite=Strict. */
  readonly cookie?: string
}

export interface ImpersonationCallbacks {
  /** Called in the context that the handler is to run in; undefined when the request is in nobody's name. */
  readonly admitted: (impersonation: ActiveImpersonation | undefined) => void
  readonly rejected: (error: unknown) => void
}

export type ImpersonationMiddleware = (
  request: GuardedRequest,
  tenant: GuardedTenant | undefined,
  callbacks: ImpersonationCallbacks,
) => void

/**
 * Goes on at once where there is no token, and where the guard has let the request through without a tenant: on such paths nobody is
 * anybody's user. A token that no guard has looked at before is refused. Throws when nothing would record what is done.
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
    'The request has the token of an impersonation, and no guard has said of which tenant it is. (guard() comes before impersonation().)',
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
    return all.length === 1 && typeof token === 'string' ? token : NOT_ONE
  }
}

function cookiesOf(header: string | readonly string[] | undefined, name: string): string[] {
  if (header === undefined) return []
  return [header]
    .flat()
    .flatMap((line) => line.split(';'))
    .flatMap((pair) => {
      const [key, ...value] = pair.split('=')
      return key?.trim() === name ? [value.join('=').trim()] : []
    })
}
