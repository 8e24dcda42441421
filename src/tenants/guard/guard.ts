/**
 * Guards the routes of a host: finds the tenant of a request and admits it only if the tenant is usable.
 * Framework-free; the adapters of hosts (http/hosts) call it and respond with its errors.
 *
 *   path ─► ignored, central ──────────────────────────────────────────────────────────────► admitted without a tenant
 *     └───► resolve ─► found ─► member ─► not suspended ─► ready ─► no maintenance ─► circuit closed ─► admitted
 *             │ 400     │ 404     │ 403         │ 403         │ 503         │ 503            │ 503
 *             └ universal: admitted without a tenant
 *
 * - Unknown and deleted tenants have the same 404 after the same lookup (registry/negative-cache.ts).
 * - `authorize` precedes the checks of the status, so strangers do not learn it. It is not called for unknown tenants.
 *   A 403 reveals that the tenant exists; `denial: 'not-found'` responds with the same 404 instead.
 * - A cached tenant is checked synchronously, without the database.
 */

import type { Traffic } from '../../kernel/api/traffic.ts'
import type { Actor } from '../../kernel/base/context.ts'
import { assertAgrees } from '../handles/agreement.ts'
import type { Tenant } from '../handles/handle.ts'
import type { Located } from '../registry/tenant-cache.ts'
import { TenantAccessDenied, TenantNotFound, TenantNotIdentified } from '../tenant/errors.ts'
import type { Names } from '../tenant/names.ts'
import { TENANT_ID, type TenantRecord } from '../tenant/tenant.ts'
import { type PathPattern, pathMatcher, plainPath } from './path-patterns.ts'
import { assertAdmissible, type CircuitSource } from './rules.ts'
import { type Candidate, type GuardedRequest, isPromise, type Strategy } from './strategies.ts'

export interface GuardOptions {
  /** Reads the tenant's id or domain from a request. */
  readonly resolve: Strategy
  /**
   * Whether the caller belongs to the tenant. Only `true` admits the request; a thrown error ends it. `'anyone'` admits
   * every request that names a tenant: only if the strategy itself authenticates the caller, or all data is public.
   */
  readonly authorize: 'anyone' | ((request: GuardedRequest, tenant: TenantRecord) => boolean | Promise<boolean>)
  /**
   * The caller, for the audit log and the log; called for admitted requests only. Default: the actor of the context,
   * `host`.
   */
  readonly actor?: (request: GuardedRequest, tenant: TenantRecord) => Actor | Promise<Actor>
  /** The response to strangers: `forbidden` (default) is 403, `not-found` the 404 of an unknown tenant. */
  readonly denial?: 'forbidden' | 'not-found'
  /** Paths without a guard: health checks, assets. See path-patterns.ts for the matching of paths. */
  readonly ignore?: readonly PathPattern[]
  /** Paths of the SaaS itself: they have no tenant, and cannot use the storage of any tenant. */
  readonly central?: readonly PathPattern[]
  /** Paths with and without a tenant: a named tenant is checked. */
  readonly universal?: readonly PathPattern[]
}

/** The part of `tenancy.tenants` that a guard needs. */
export interface GuardedTenants extends CircuitSource {
  readonly registry: {
    peek(id: string): Located | undefined
    peekDomain(domain: string): Located | undefined
    find(id: string): Promise<Located | undefined>
    findByDomain(domain: string): Promise<Located | undefined>
  }
  readonly handles: { of(located: Located): Tenant | Promise<Tenant> }
}

/** The result for an admitted request. `ignored`: as without a guard. */
export type GuardDecision<DB = any, N extends Names = Names> =
  | { readonly scope: 'tenant'; readonly tenant: Tenant<DB, N>; readonly actor?: Actor | undefined }
  | { readonly scope: 'central' | 'none' | 'ignored'; readonly tenant?: undefined; readonly actor?: undefined }

/** A guard of the host's routes, with the tables and names of its tenants. The adapters of frameworks call it. */
export interface Guard<DB = any, N extends Names = Names> {
  /** Throws, or rejects with, the error for the response. */
  admit(request: GuardedRequest): GuardDecision<DB, N> | Promise<GuardDecision<DB, N>>
  /** Receives the requests admitted with a tenant. */
  readonly traffic?: Traffic | undefined
  /** What the guard reads from a request before it looks for the tenant. Rejects with the error for the response. */
  identify?(request: GuardedRequest): Promise<Identified>
}

export interface Identified {
  readonly pathClass: PathClass
  readonly candidate: Candidate | undefined
}

const NONE: GuardDecision = { scope: 'none' }
const CENTRAL: GuardDecision = { scope: 'central' }
const IGNORED: GuardDecision = { scope: 'ignored' }

/**
 * Creates a guard. Throws for invalid options.
 *
 * @example
 *   const guard = tenancy.guard({ resolve: fromHeader(), authorize: isMember, ignore: ['/health'] })
 */
export function createGuard(tenants: GuardedTenants, options: GuardOptions, traffic?: Traffic): Guard {
  const { resolve, authorize, actor, denial = 'forbidden' } = options
  if (authorize !== 'anyone' && typeof authorize !== 'function') {
    throw new TypeError(`guard.authorize is required: a function, or 'anyone'`)
  }
  const classOf = pathClasses(options)
  const { registry, handles } = tenants

  const find = (candidate: Candidate): Located | undefined | Promise<Located | undefined> => {
    if ('domain' in candidate) return registry.peekDomain(candidate.domain) ?? registry.findByDomain(candidate.domain)
    const { id } = candidate
    return TENANT_ID.test(id) ? (registry.peek(id) ?? registry.find(id)) : undefined
  }

  const decision = (request: GuardedRequest, tenant: Tenant): GuardDecision | Promise<GuardDecision> => {
    const caller = actor?.(request, tenant.record)
    if (!isPromise(caller)) return { scope: 'tenant', tenant, actor: caller }
    return caller.then((actor) => ({ scope: 'tenant', tenant, actor }))
  }

  const admitted = (request: GuardedRequest, located: Located): GuardDecision | Promise<GuardDecision> => {
    assertAgrees(located.tenant.id)
    assertAdmissible(tenants, located)
    const tenant = handles.of(located)
    return isPromise(tenant) ? tenant.then((found) => decision(request, found)) : decision(request, tenant)
  }

  const known = (request: GuardedRequest, located: Located | undefined): GuardDecision | Promise<GuardDecision> => {
    if (!located || located.tenant.status === 'deleted') throw noSuchTenant()
    if (authorize === 'anyone') return admitted(request, located)
    const isMember = authorize(request, located.tenant)
    const decided = (isAllowed: boolean) => {
      if (isAllowed !== true) throw denial === 'not-found' ? noSuchTenant() : denied()
      return admitted(request, located)
    }
    return isPromise(isMember) ? Promise.resolve(isMember).then(decided) : decided(isMember)
  }

  const named = (request: GuardedRequest, candidate: Candidate): GuardDecision | Promise<GuardDecision> => {
    const located = find(candidate)
    return isPromise(located) ? located.then((found) => known(request, found)) : known(request, located)
  }

  return {
    traffic,
    async identify(request) {
      const pathClass = classOf(request)
      const isRead = pathClass === 'guarded' || pathClass === 'universal'
      return { pathClass, candidate: isRead ? await resolve(request) : undefined }
    },
    admit(request) {
      const pathClass = classOf(request)
      if (pathClass === 'ignored') return IGNORED
      if (pathClass === 'central') return CENTRAL
      const resolved = (candidate: Candidate | undefined): GuardDecision | Promise<GuardDecision> => {
        if (candidate) return named(request, candidate)
        if (pathClass === 'universal') return NONE
        throw TenantNotIdentified('The request does not name a tenant.')
      }
      const candidate = resolve(request)
      return isPromise(candidate) ? Promise.resolve(candidate).then(resolved) : resolved(candidate)
    },
  }
}

type PathClass = 'ignored' | 'central' | 'universal' | 'guarded'

/** A path that matches several lists belongs to the first one here. */
function pathClasses({
  ignore = [],
  central = [],
  universal = [],
}: GuardOptions): (request: GuardedRequest) => PathClass {
  const lists = (
    [
      ['ignored', ignore],
      ['central', central],
      ['universal', universal],
    ] as const
  )
    .filter(([, patterns]) => patterns.length > 0)
    .map(([name, patterns]) => ({ name, matches: pathMatcher(patterns) }))
  if (lists.length === 0) return () => 'guarded'
  return ({ path }) => {
    const plain = plainPath(path)
    if (plain === undefined) return 'guarded'
    return lists.find(({ matches }) => matches(plain))?.name ?? 'guarded'
  }
}

/** Without the id: a request by domain must not reveal it. */
const noSuchTenant = () => TenantNotFound('Tenant not found.')

const denied = () => TenantAccessDenied('You do not have access to this tenant.')
