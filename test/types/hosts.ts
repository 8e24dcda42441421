/** Types of guarded requests: `Register` for Express, Fastify and Koa, and inference from the guard for Hono, the web standard and node:http. */
import { createServer } from 'node:http'
import express from 'express'
import { Hono } from 'hono'
import Koa from 'koa'
import type { Kysely } from 'kysely'
import { defineTenancy, fromHeader, type RegisteredTenant, tables } from 'tenantry'
import * as forExpress from 'tenantry/express'
import * as forHono from 'tenantry/hono'
import * as forKoa from 'tenantry/koa'
import * as forNest from 'tenantry/nestjs'
import * as forNode from 'tenantry/node'
import * as forWeb from 'tenantry/web'
import { type Equal, is } from './is.ts'
import './register.ts'
import { type Database, definition } from './tenancy.ts'

const tenancy = await definition.start()
const guard = tenancy.guard({ resolve: fromHeader(), authorize: 'anyone' })
type Current = Awaited<ReturnType<typeof tenancy.current>>
declare const current: Current

const ordersTables = tables<{ orders: { id: number } }>()
const orders = await defineTenancy({ tables: ordersTables, isolation: ['schema-pg'] }).start()
const ordersGuard = orders.guard({ resolve: fromHeader(), authorize: 'anyone' })
type Orders = Awaited<ReturnType<typeof orders.current>>

is<Equal<RegisteredTenant, Current>>()

// Express
const app = express()
app.use(forExpress.guard(guard))
app.post('/notes', forExpress.enforceQuota(tenancy.quotas, 'exports'), async (request, response) => {
  is<Equal<typeof request.tenant, Current>>()
  is<Equal<typeof request.optionalTenant, Current | undefined>>()
  response.json(await request.tenant.db.selectFrom('notes').selectAll().execute())
  // @ts-expect-error misspelled table
  request.tenant.db.selectFrom('note')
  // @ts-expect-error the optional tenant may be undefined
  request.optionalTenant.id
  // @ts-expect-error the tenant of a request cannot be replaced
  request.tenant = current
})
app.get('/orders', forExpress.guard(ordersGuard), async (request, response) => {
  response.json(await forExpress.tenantOf(request, ordersGuard).db.selectFrom('orders').selectAll().execute())
  // @ts-expect-error a table of the other tenancy
  forExpress.tenantOf(request, ordersGuard).db.selectFrom('notes')
})
// @ts-expect-error misspelled quota
forExpress.enforceQuota(tenancy.quotas, 'exprots')

// Koa
const koa = new Koa<forKoa.GuardedState>()
koa.use(forKoa.guard(guard)).use(async (context) => {
  is<Equal<typeof context.state.tenant, Current>>()
  // @ts-expect-error misspelled table
  context.state.tenant.db.selectFrom('note')
  context.body = await context.state.tenant.db.selectFrom('notes').selectAll().execute()
})

// Hono: inferred from the chain
new Hono()
  .use(forHono.guard(guard))
  .post('/exports', forHono.enforceQuota(tenancy.quotas, 'exports'), (context) =>
    context.text(forHono.tenantOf(context).id),
  )
  .get('/notes', async (context) => {
    const tenant = forHono.tenantOf(context)
    is<Equal<typeof tenant, Current>>()
    const optional = context.get('tenant')
    is<Equal<typeof optional, Current | undefined>>()
    // @ts-expect-error misspelled table
    tenant.db.selectFrom('note')
    return context.json(await tenant.db.selectFrom('notes').selectAll().execute())
  })
new Hono().use(forHono.guard(ordersGuard)).get('/orders', (context) => {
  const ofOrders = forHono.tenantOf(context)
  is<Equal<typeof ofOrders, Orders>>()
  // @ts-expect-error a table of the other tenancy
  forHono.tenantOf(context).db.selectFrom('notes')
  return context.text(forHono.tenantOf(context, ordersGuard).id)
})
new Hono<forHono.GuardedEnv>().get('/notes', (context) => {
  const tenant = forHono.tenantOf(context)
  is<Equal<typeof tenant, Current>>()
  return context.text(tenant.plan)
})
// @ts-expect-error misspelled quota
forHono.enforceQuota(tenancy.quotas, 'exprots')

// Web standard, with the arguments of its framework
export const GET = forWeb.guardFetch(
  guard,
  async (_request, { tenant }, { params }: { params: Promise<{ id: string }> }) => {
    is<Equal<typeof tenant, Current>>()
    const { id } = await params
    return Response.json(await tenant.db.selectFrom('notes').selectAll().where('id', '=', Number(id)).execute())
  },
)
is<Equal<Parameters<typeof GET>, [Request, { params: Promise<{ id: string }> }]>>()
// @ts-expect-error the argument of the framework is missing
GET(new Request('http://x/'))
export const POST = forWeb.guardFetch(
  ordersGuard,
  forWeb.problemHandler(
    orders.kernel.log,
    forWeb.enforceQuota(tenancy.quotas, 'exports', async (_request, { tenant }) => {
      is<Equal<typeof tenant, Orders>>()
      return Response.json(await tenant.db.selectFrom('orders').selectAll().execute())
    }),
  ),
)
// @ts-expect-error a handler returns a response
forWeb.guardFetch(guard, async (_request, { tenant }) => tenant.id)
// @ts-expect-error misspelled quota
forWeb.enforceQuota(tenancy.quotas, 'exprots', () => new Response())
forWeb.guardFetch(guard, (_request, { tenant }) => {
  // @ts-expect-error misspelled column
  tenant.db.selectFrom('notes').select('titel')
  return new Response()
})

// NestJS
forNest.TenantryModule.forRoot({ tenancy, guard })
export const orderOf = (request: object): Kysely<{ orders: { id: number } }> =>
  forNest.tenantOf(request, ordersGuard).db
// @ts-expect-error misspelled quota
forNest.enforceQuota(tenancy.quotas, 'exprots')

// node:http
createServer(
  forNode.guard(guard, async (_request, response, tenant) => {
    is<Equal<typeof tenant, Current | undefined>>()
    const { db } = forNode.requireTenant(tenant)
    is<Equal<typeof db, Kysely<Database>>>()
    // @ts-expect-error the tenant may be undefined
    tenant.id
    response.end()
  }),
)
