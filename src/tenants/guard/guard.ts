/**
 * The guard of a host's routes: it finds the tenant that a request is for, and lets it through only when that tenant may be
 * used now. Framework-free; the hosts' adapters (http/hosts) ask it and answer what it throws.
 *
 *   path ─► ignored, central ─────────────────────────────────────────────────────────► let through without a tenant
 *     └───► resolve ─► known ─► member ─► not suspended ─► ready ─► no maintenance ─► circuit closed ─► let through with it
 *             │ 400     │ 404     │ 403         │ 403         │ 503         │ 503            │ 503
 *             └ universal: let through without a tenant
 *
 * The 404 is one and the same for an id that never was and a tenant that is deleted, and takes the same way to be found
 * (registry/negative-cache.ts). Nobody who may not know the tenant learns what state it is in: `authorize` comes before that, and is not asked
 * about tenants that are not there. A stranger's 403 says, however, that there is a tenant of that id; where that is too much,
 * `denial: 'not-found'` makes it the same 404.
 *
 * What is in the registry's cache is answered at once: no database, no promise.
 */

import type { Traffic } from '../../kernel/api/traffic.ts'
import type { Actor } from '../../kernel/base/context.ts'
import { assertAgrees } from '../handles/agreement.ts'
import type { TenantHandle } from '../handles/handle.ts'
import { REFUSED_SETTINGS } from '../handles/rejected-settings.ts'
import { assertUsable } from '../registry/assert-usable.ts'
import type { Located } from '../registry/tenant-cache.ts'
import { TenantAccessDenied, TenantNotFound, TenantNotIdentified } from '../tenant/errors.ts'
import { TENANT_ID, type Tenant } from '../tenant/tenant.ts'
import { type PathPattern, pathMatcher, plainPath } from './path-patterns.ts'
import { type Candidate, type GuardedRequest, isPromise, type Strategy } from './strategies.ts'

export interface GuardOptions {
  /** Where a request names its tenant. */
  readonly resolve: Strategy
  /**
   * Whether the caller belongs to the tenant. Only `true` admits it; an error that it throws ends the request. `'anyone'` admits
   * every request that names a tenant: only where the strategy itself proves who the caller is, or where all data is public.
   */
  readonly authorize: 'anyone' | ((request: GuardedRequest, tenant: Tenant) => boolean | Promise<boolean>)
  /** The caller, for the audit log and the log; called for admitted requests only. Default: the actor of the context, `host`. */
  readonly actor?: (request: GuardedRequest, tenant: Tenant) => Actor | Promise<Actor>
  /** What a stranger is told: `forbidden` (default) is 403, `not-found` the 404 of a tenant that is not there. */
  readonly denial?: 'forbidden' | 'not-found'
  /** Paths that are not guarded at all: health checks, assets. See path-patterns.ts for how paths are matched. */
  readonly ignore?: readonly PathPattern[]
  /** Paths of the SaaS itself: they have no tenant, and the storage of none can be used on them. */
  readonly central?: readonly PathPattern[]
  /** Paths with and without a tenant: one that is named is checked as everywhere, and none is fine. */
  readonly universal?: readonly PathPattern[]
}

/** The part of `tenancy.tenants` that a guard needs. */
export interface GuardedTenants {
  readonly registry: {
    peek(id: string): Located | undefined
    peekDomain(domain: string): Located | undefined
    find(id: string): Promise<Located | undefined>
    findByDomain(domain: string): Promise<Located | undefined>
  }
  readonly handles: { of(located: Located): TenantHandle }
  /** Throws `E_CIRCUIT_OPEN` when the tenant's storage is known not to answer. */
  assertCircuitClosed?(located: Located): void
}

/** The tenant of a request: its storage, and what is registered of it. */
export interface GuardedTenant<Tables = any> extends TenantHandle<Tables> {
  readonly record: Tenant
}

/** How a request is let through. `ignored`: as if there were no guard. */
export type GuardDecision =
  | { readonly scope: 'tenant'; readonly tenant: GuardedTenant; readonly actor?: Actor | undefined }
  | { readonly scope: 'central' | 'none' | 'ignored'; readonly tenant?: undefined; readonly actor?: undefined }

export interface Guard {
  /** Throws, or rejects with, what the request is to be answered. */
  admit(request: GuardedRequest): GuardDecision | Promise<GuardDecision>
  /** Who is told of what is let through with a tenant. */
  readonly traffic?: Traffic | undefined
}

const NONE: GuardDecision = { scope: 'none' }
const CENTRAL: GuardDecision = { scope: 'central' }
const IGNORED: GuardDecision = { scope: 'ignored' }

/**
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

  const admitted = (request: GuardedRequest, located: Located): GuardDecision | Promise<GuardDecision> => {
    assertAgrees(located.tenant.id)
    assertUsable(located.tenant)
    tenants.assertCircuitClosed?.(located)
    const handle = handles.of(located)
    const { id, db, dialect, transaction } = handle
    const { tenant: record } = located
    const tenant = {
      ...REFUSED_SETTINGS,
      id,
      db,
      dialect,
      transaction,
      record,
      get pool() {
        return handle.pool
      },
      get pg() {
        return handle.pg
      },
    }
    const caller = actor?.(request, located.tenant)
    if (!isPromise(caller)) return { scope: 'tenant', tenant, actor: caller }
    return caller.then((actor) => ({ scope: 'tenant', tenant, actor }))
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
    admit(request) {
      const pathClass = classOf(request)
      if (pathClass === 'ignored') return IGNORED
      if (pathClass === 'central') return CENTRAL
      const resolved = (candidate: Candidate | undefined): GuardDecision | Promise<GuardDecision> => {
        if (candidate) return named(request, candidate)
        if (pathClass === 'universal') return NONE
        throw TenantNotIdentified('The request does not say which tenant it is for.')
      }
      const candidate = resolve(request)
      return isPromise(candidate) ? Promise.resolve(candidate).then(resolved) : resolved(candidate)
    },
  }
}

type PathClass = 'ignored' | 'central' | 'universal' | 'guarded'

/** A path that matches in more than one list is of the first that it matches here. */
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

/** It says no id: what is reached by a domain must not tell one. */
const noSuchTenant = () => TenantNotFound('There is no such tenant.')

const denied = () => TenantAccessDenied('You have no access to this tenant.')
