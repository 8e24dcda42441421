/** The common part of the guards of all hosts: the guarded request, the context of its handler, and the response to a rejection. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Context, currentContext, enterContext, NO_TENANT } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import { parseTraceparent } from '../../kernel/base/trace-context.ts'
import type { Guard, GuardDecision } from '../../tenants/guard/guard.ts'
import { pathOfTarget } from '../../tenants/guard/path-patterns.ts'
import type { GuardedRequest } from '../../tenants/guard/strategies.ts'
import type { Tenant } from '../../tenants/handles/handle.ts'
import { TenantMismatch } from '../../tenants/tenant/errors.ts'
import type { Names } from '../../tenants/tenant/names.ts'
import { type ProblemResponse, toLoggedProblemResponse, toProblemResponse } from '../problem.ts'
import { requestIdOf } from '../requests/request-id.ts'

export interface GuardCallbacks {
  /** Called in the context of the handler; `requestId` is null on an ignored path. */
  readonly admitted: (decision: GuardDecision, requestId: string | null) => void
  /** Called in the context of the request, without a tenant. */
  readonly rejected: (error: unknown) => void
}

const withoutTenant = new WeakSet<object>()

/** Whether a guard admitted the request without a tenant, as on a central path. False if no guard ran, or an earlier one found a tenant. */
export const isWithoutTenant = ({ raw }: GuardedRequest): boolean => withoutTenant.has(raw)

interface Admission {
  readonly guard: Guard
  readonly tenant: Tenant
  /** Of another guard before it. */
  readonly earlier: Admission | undefined
}

/** The last admission of a request with a tenant. */
const admissions = new WeakMap<object, Admission>()

/**
 * The tenant of a request that `guard` has admitted, with its tables and names: for programs with several tenancies, of which `Register`
 * has one. Throws `E_TENANT_MISMATCH` on its central and ignored paths, and without this guard.
 *
 *   app.get('/orders', async (request, response) => {
 *     const tenant = tenantOf(request, ordersGuard)
 *     response.json(await tenant.db.selectFrom('orders').selectAll().execute())
 *   })
 */
export function tenantOf<DB, N extends Names>(request: object, guard: Guard<DB, N>): Tenant<DB, N> {
  let admission = admissions.get(request)
  while (admission && admission.guard !== guard) admission = admission.earlier
  return requireTenant(admission?.tenant as Tenant<DB, N> | undefined)
}

/** Calls the guard. Continues synchronously unless the guard returns a promise. */
export function runGuard(
  guard: Guard,
  request: GuardedRequest,
  ip: string | undefined,
  callbacks: GuardCallbacks,
): void {
  const outer = currentContext()
  const requestId = outer.requestId ?? requestIdOf(request.header('x-request-id'))
  const traceparent = outer.traceparent ?? parseTraceparent(request.header('traceparent'))
  const context: Context = { ...outer, requestId, ip: ip ?? outer.ip, traceparent }
  const admitted = (decision: GuardDecision) => {
    const { tenant } = decision
    if (tenant) admissions.set(request.raw, { guard, tenant, earlier: admissions.get(request.raw) })
    const isIgnored = decision.scope === 'ignored'
    const inner = isIgnored ? outer : admittedContext(context, decision)
    if (!inner.tenantId) withoutTenant.add(request.raw)
    enterContext(inner, () => callbacks.admitted(decision, isIgnored ? null : requestId))
  }
  const rejected = (error: unknown): void => enterContext(context, () => callbacks.rejected(error))
  let decision: GuardDecision | Promise<GuardDecision>
  try {
    decision = enterContext(context, () => guard.admit(request))
  } catch (error) {
    rejected(error)
    return
  }
  // An error of the host's own code also reaches `rejected`.
  if (decision instanceof Promise) decision.then(admitted).catch(rejected)
  else admitted(decision)
}

/** A second guard keeps the tenant of the first one. It throws for another tenant (`createGuard`). */
const admittedContext = (outer: Context, { scope, tenant, actor }: GuardDecision): Context => ({
  ...outer,
  actor: outer.impersonation ? outer.actor : (actor ?? outer.actor),
  tenantId: scope === 'central' ? NO_TENANT : (tenant?.id ?? outer.tenantId),
})

/** Returns the tenant of a route that needs one. Throws `E_TENANT_MISMATCH` on central and ignored paths. */
export function requireTenant<T extends Tenant>(tenant: T | undefined): T {
  if (tenant) return tenant
  throw TenantMismatch('This route has no tenant: it is central, or no guard precedes it.')
}

/** The property `tenant` of an object with an optional one. */
export const TENANT = {
  configurable: true,
  get(this: { readonly optionalTenant?: Tenant }): Tenant {
    return requireTenant(this.optionalTenant)
  },
}

/** The same without a guard: the program may set another value. */
export const UNGUARDED = {
  ...TENANT,
  set(this: object, value: unknown): void {
    Object.defineProperty(this, 'tenant', { configurable: true, enumerable: true, writable: true, value })
  },
}

/** For the handler of the admin API, which is in front of all routes: a missing guard is a clear error. */
export function defineTenant(carrier: object): void {
  if (!('tenant' in carrier)) Object.defineProperty(carrier, 'tenant', UNGUARDED)
}

/** The promise of the handler that `run` calls in the context of its request, or of the response to a rejection. */
export const admission = <Admitted extends unknown[], T>(
  run: (callbacks: { admitted: (...admitted: Admitted) => void; rejected: (error: unknown) => void }) => void,
  handle: (...admitted: Admitted) => Promise<T>,
  respond: (error: unknown) => Promise<T>,
): Promise<T> =>
  new Promise((resolve) => {
    run({
      admitted: (...admitted) => resolve(handle(...admitted)),
      rejected: (error) => resolve(respond(error)),
    })
  })

/** A request of node:http, with or without a framework. */
export class NodeRequest<Raw> implements GuardedRequest<Raw> {
  readonly raw: Raw
  readonly #incoming: IncomingMessage
  readonly #target: string
  readonly #hostOf: () => string | undefined

  /**
   * @param target the request target, including any mount path
   * @param hostOf the host according to the framework
   */
  constructor(raw: Raw, incoming: IncomingMessage, target = incoming.url ?? '/', hostOf = () => incoming.headers.host) {
    this.raw = raw
    this.#incoming = incoming
    this.#target = target
    this.#hostOf = hostOf
  }

  get method(): string {
    return this.#incoming.method ?? 'GET'
  }

  get path(): string {
    return pathOfTarget(this.#target)
  }

  /** Undefined for two Host headers: a proxy may have used the other one. */
  get host(): string | undefined {
    return isTwice(this.#incoming.rawHeaders, 'host') ? undefined : this.#hostOf()
  }

  /** Node joins several headers of one name with commas, except `set-cookie`. */
  header(name: string): string | undefined {
    const value = this.#incoming.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }
}

function isTwice(rawHeaders: readonly string[], name: string): boolean {
  let count = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() === name) count++
  }
  return count > 1
}

/** Appends a value to a list header. */
export const listed = (before: unknown, value: string): string => (before === undefined ? value : `${before}, ${value}`)

export function appendHeaders(outgoing: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, listed(outgoing.getHeader(name), value))
}

/** Sends the problem of a rejection, unless the response has started. Returns false for an error that the host handles. */
export const sendRejection = (outgoing: ServerResponse, error: unknown): boolean =>
  respondOnce(error, outgoing.headersSent, (problem) => send(outgoing, problem))

/** As `sendRejection`, for the response of a framework. */
export function respondOnce(error: unknown, isSent: boolean, respond: (problem: ProblemResponse) => void): boolean {
  const problem = toProblemResponse(error)
  if (problem && !isSent) respond(problem)
  return problem !== undefined
}

/** The response to a rejection, in the web standard. Throws an error that the host handles. */
export async function rejectionResponse(error: unknown): Promise<Response> {
  const problem = toProblemResponse(error)
  if (problem) return responseOf(problem)
  throw error
}

export const responseOf = ({ status, headers, body }: ProblemResponse): Response =>
  new Response(body, { status, headers })

/** Sends and logs the problem of an error of the host's own routes. Returns false for an error that the host handles. */
export function sendRouteError(
  outgoing: ServerResponse,
  error: unknown,
  log: Pick<Logger, 'warn'>,
  request: GuardedRequest,
): boolean {
  const problem = outgoing.headersSent ? undefined : toLoggedProblemResponse(error, log, request)
  if (problem) send(outgoing, problem)
  return problem !== undefined
}

/** Replaces headers of the same names and keeps the others. */
function send(outgoing: ServerResponse, { status, headers, body }: ProblemResponse): void {
  outgoing.statusCode = status
  for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value)
  outgoing.end(body)
}
