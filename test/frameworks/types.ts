/** Types of hosts and jobs: `npm run check` compiles this file, nothing runs it. */
import type { Request as ExpressRequest, Response as ExpressResponse, NextFunction } from 'express'
import type { FastifyRequest } from 'fastify'
import type { Context } from 'hono'
import type { ParameterizedContext } from 'koa'
import type { ForEachTenantResult, Guard, Tenancy, Tenant } from 'tenantry'
import { enforceQuota as limitRoute } from 'tenantry/express'
import { type GuardedEnv, tenantOf } from 'tenantry/hono'
import type { GuardedState } from 'tenantry/koa'
import { type CurrentTenant, TenantryModule } from 'tenantry/nestjs'
import { fetchHandler, type GuardedFetch, guardFetch, problemHandler } from 'tenantry/web'
import type { Application } from './application.ts'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const is = <_Condition extends true>(): void => undefined

declare const tenancy: Tenancy
declare const guard: Guard
declare const application: Application

// The tenant of a guarded route needs no check. The optional one does.
is<Equal<ExpressRequest['tenant'], Tenant>>()
is<Equal<FastifyRequest['tenant'], Tenant>>()
is<Equal<GuardedState['tenant'], Tenant>>()
is<Equal<GuardedFetch['tenant'], Tenant>>()
is<Equal<ExpressRequest['optionalTenant'], Tenant | undefined>>()
is<Equal<FastifyRequest['optionalTenant'], Tenant | undefined>>()
export const ofHono = (context: Context<GuardedEnv>): Tenant => tenantOf(context)
export const ofKoa = ({ state }: ParameterizedContext<GuardedState>): string => state.tenant.id
export function replace(request: ExpressRequest, tenant: Tenant): void {
  // @ts-expect-error the tenant of a request cannot be replaced
  request.tenant = tenant
}
// @ts-expect-error the optional tenant may be undefined
export const unchecked = ({ optionalTenant }: GuardedFetch): string => optionalTenant.id

// A handler of the web standard keeps the arguments of its framework.
const withParams = guardFetch(guard, async (_request, { tenant }, { params }: { params: Promise<{ id: string }> }) =>
  Response.json({ tenant: tenant.id, id: (await params).id }),
)
is<Equal<Parameters<typeof withParams>, [Request, { params: Promise<{ id: string }> }]>>()
export const answered: Promise<Response> = withParams(new Request('http://x/'), {
  params: Promise.resolve({ id: '1' }),
})
// @ts-expect-error the argument of the framework is missing
withParams(new Request('http://x/'))
// @ts-expect-error a handler returns a response
guardFetch(guard, async (_request, { tenant }) => tenant.id)
export const nested = guardFetch(
  guard,
  problemHandler(tenancy.kernel.log, () => new Response(null)),
)
export const mounted: (request: Request) => Promise<Response> = fetchHandler(application.http, nested)

// NestJS
is<Equal<ReturnType<typeof CurrentTenant>, ParameterDecorator>>()
// @ts-expect-error the guard is required
TenantryModule.forRoot({ tenancy })

// The checks of a route are middleware of its framework.
export const limited: (request: ExpressRequest, response: ExpressResponse, next: NextFunction) => unknown = limitRoute(
  application.tenancy.quotas,
  'exports',
)

// Jobs: the tenant is optional only for a handler of central jobs.
const job = tenancy.job(async (one: { data: { to: string } }, tenant) => `${tenant.id} ${one.data.to}`)
is<Equal<ReturnType<typeof job>, Promise<string | undefined>>>()
// @ts-expect-error the data of the job is missing
job({})
// @ts-expect-error a central job may have no tenant
tenancy.job((_job, tenant) => tenant.id, { central: true })
tenancy.job((_job, tenant) => tenant?.id, { central: true })
// @ts-expect-error there is no such value
tenancy.job(() => undefined, { onUnusable: 'fail' })
is<Equal<ReturnType<typeof tenancy.carry<{ to: string }>>['to'], string>>()
export const loop: Promise<ForEachTenantResult> = tenancy.forEachTenant(
  { status: 'active' },
  (tenant: Tenant) => tenant.id,
)
// @ts-expect-error only the storage of active tenants can be used
tenancy.forEachTenant({ status: 'suspended' }, () => undefined)
