/** Whether a request with a host and a path names a tenant, by the guards of this process, or by the domains of tenants without a guard. */
import { currentContext } from '../../kernel/base/context.ts'
import { TenancyError } from '../../kernel/base/errors.ts'
import type { AccessResult } from '../../kernel/shares/contributions.ts'
import type { Guard } from '../guard/guard.ts'
import { type Candidate, fromCustomDomain, type GuardedRequest } from '../guard/strategies.ts'
import type { Registry } from '../registry/registry.ts'
import { TenantNotFound, TenantNotIdentified } from '../tenant/errors.ts'
import { TENANT_ID } from '../tenant/tenant.ts'

/** Guards of one process are few. */
const MAX_GUARDS = 10

export interface Entry {
  readonly host?: string | undefined
  readonly path?: string | undefined
}

export interface Entrance {
  readonly result: AccessResult
  /** The response of the guard, where it does not depend on the state of the tenant. */
  readonly response?: { readonly status: number | null; readonly code: string | null } | undefined
}

const PASSED: Entrance = { result: { passed: true, message: 'A request with this host and path names the tenant.' } }
const OTHER_TENANT: Entrance = {
  result: { passed: false, code: null, message: 'A request with this host and path names another tenant.' },
  response: { status: null, code: null },
}
/** For a token with a tenant limit: it cannot probe ids and domains of other tenants. */
const NOT_NAMED: Entrance = {
  result: { passed: false, code: null, message: 'A request with this host and path does not name the tenant.' },
  response: { status: null, code: null },
}
const UNKNOWN: Entrance = {
  result: { passed: null, message: 'This process has no guard that names a tenant by this host and path.' },
}
const FAILED: Entrance = {
  result: { passed: null, message: 'The guard needs more of a request than its host and path to name the tenant.' },
}

export class Resolution {
  readonly #registry: Pick<Registry, 'find' | 'findByDomain'>
  readonly #guards: Guard[] = []

  constructor(registry: Pick<Registry, 'find' | 'findByDomain'>) {
    this.#registry = registry
  }

  register(guard: Guard): void {
    if (this.#guards.length < MAX_GUARDS) this.#guards.push(guard)
  }

  /** Undefined without a host and a path. Of several guards, the guard that names the tenant decides, otherwise the first guard. */
  async of(id: string, { host, path }: Entry): Promise<Entrance | undefined> {
    if (host === undefined && path === undefined) return undefined
    const request = requestOf(host, path ?? '/')
    if (this.#guards.length === 0) return this.#byDomain(id, request)
    const entrances: Entrance[] = []
    for (const guard of this.#guards) entrances.push(await this.#byGuard(id, guard, request))
    return entrances.find(({ result }) => result.passed) ?? entrances[0]
  }

  /** A guard elsewhere may name the tenant by other means. */
  async #byDomain(id: string, request: GuardedRequest): Promise<Entrance> {
    const candidate = await fromCustomDomain()(request)
    const owner = candidate && (await this.#find(candidate))
    if (owner === id) return PASSED
    return owner === undefined || hasTenantLimit() ? UNKNOWN : OTHER_TENANT
  }

  async #byGuard(id: string, guard: Guard, request: GuardedRequest): Promise<Entrance> {
    try {
      const { pathClass, candidate } = (await guard.identify?.(request)) ?? {}
      if (pathClass === 'ignored' || pathClass === 'central') return unguarded(pathClass)
      if (!candidate) return pathClass === 'universal' ? unguarded(pathClass) : rejected(TenantNotIdentified.code, 400)
      const found = await this.#find(candidate)
      if (found === id) return PASSED
      if (hasTenantLimit()) return NOT_NAMED
      return found === undefined ? rejected(TenantNotFound.code, 404) : OTHER_TENANT
    } catch (error) {
      return TenantNotIdentified.matches(error) && error instanceof TenancyError
        ? rejected(error.code, error.status)
        : FAILED // the strategy is code of the host
    }
  }

  /** Id of the tenant. */
  async #find(candidate: Candidate): Promise<string | undefined> {
    if ('domain' in candidate) return (await this.#registry.findByDomain(candidate.domain))?.tenant.id
    return TENANT_ID.test(candidate.id) ? (await this.#registry.find(candidate.id))?.tenant.id : undefined
  }
}

const hasTenantLimit = (): boolean => (currentContext().grant?.tenants ?? null) !== null

const unguarded = (pathClass: string): Entrance => ({
  result: { passed: null, message: `The guard admits this request without a tenant: the path is ${pathClass}.` },
  response: { status: null, code: null },
})

const rejected = (code: string, status: number): Entrance => ({
  result: { passed: false, code, message: 'A request with this host and path names no tenant.' },
  response: { status, code },
})

const requestOf = (host: string | undefined, path: string): GuardedRequest => ({
  method: 'GET',
  path,
  host,
  header: (name) => (name === 'host' ? host : undefined),
  raw: undefined,
})
