/** Tests routes that no guard precedes: their tenant throws, and the optional one is undefined. */
import { createServer } from 'node:http'
import express, { type ErrorRequestHandler, type Request, type Response } from 'express'
import { type FastifyRequest, fastify } from 'fastify'
import Koa, { type Context } from 'koa'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createHttp, type Http } from '../../src/http/app.ts'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onKoa from '../../src/http/hosts/koa.ts'
import type { Guard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Host, listening } from './hosts.ts'
import { send } from './served.ts'

let world: TestTenancy<[]>
let http: Http
let guard: Guard

beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'))
  await installed(world.tenancy, { id: 'acme', name: 'Acme' })
  http = createHttp(world.tenancy, { adminTokens: [{ name: 'ops', token: 'unguarded-routes-of-a-host' }] })
  guard = world.tenancy.guard({ resolve: fromHeader(), authorize: () => true })
})
afterAll(() => world.end())

interface Carrier {
  tenant?: unknown
  readonly optionalTenant?: { readonly id: string }
}

/** The tenant of the request, and `code` of its error. */
function shown(carrier: Carrier) {
  const optional = carrier.optionalTenant?.id ?? null
  try {
    return { tenant: (carrier.tenant as { readonly id: string }).id, optional }
  } catch (error) {
    const { code, message } = error as Error & { code?: string }
    return { code, message, optional }
  }
}

/** A program that sets `request.tenant` itself. */
function replaced(carrier: Carrier) {
  carrier.tenant = { id: 'mine' }
  return { tenant: (carrier.tenant as { readonly id: string }).id }
}

/** Routes `/before`, `/after` and `/own` without a guard, and `/guarded`. */
const HOSTS: Readonly<Record<string, () => Promise<Host>>> = {
  express() {
    const app = express()
    const show = (request: Request, response: Response) => void response.json(shown(request))
    app.use(onExpress.expressHandler(http))
    app.get('/before', show)
    app.get('/own', (request, response) => void response.json(replaced(request as Carrier)))
    app.use('/below', express().get('/after', show))
    app.use('/guarded', onExpress.guard(guard), show)
    app.get('/after', show)
    app.use(((error, _request, response, _next) => response.status(500).send(error.stack)) as ErrorRequestHandler)
    return listening(createServer(app))
  },
  async fastify() {
    const app = fastify()
    const show = async (request: FastifyRequest) => shown(request)
    app.get('/before', show)
    await app.register(onFastify.fastifyHandler(http))
    app.get('/own', async (request) => replaced(request as Carrier))
    await app.register(async (mine) => {
      await mine.register(onFastify.guard(guard))
      mine.get('/guarded', show)
    })
    await app.register(async (mine) => mine.get('/below/after', show))
    app.get('/after', show)
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    return { origin, close: () => app.close() }
  },
  koa() {
    const app = new Koa()
    const guarded = onKoa.guard(guard)
    app.use(onKoa.koaHandler(http))
    app.use((context: Context, next) => (context.path === '/guarded' ? guarded(context as any, next) : next()))
    app.use((context) => {
      context.body = context.path === '/own' ? replaced(context.state) : shown(context.state)
    })
    return listening(createServer(app.callback()))
  },
}

describe.each(Object.entries(HOSTS))('%s', (_, open) => {
  let host: Host
  beforeAll(async () => {
    host = await open()
  })
  afterAll(() => host?.close())

  test.each(['/before', '/after', '/below/after'])(
    '%s without a guard has no tenant, before and after a guarded request',
    async (path) => {
      const none = {
        code: 'E_TENANT_MISMATCH',
        message: 'This route has no tenant: it is central, or no guard precedes it.',
        optional: null,
      }
      expect((await send(host.origin, `GET ${path}`)).json).toEqual(none)
      const guarded = await send(host.origin, 'GET /guarded', { headers: { 'x-tenant-id': 'acme' } })
      expect(guarded.json).toEqual({ tenant: 'acme', optional: 'acme' })
      expect((await send(host.origin, `GET ${path}`)).json).toEqual(none)
    },
  )

  test('a program without a guard may set `request.tenant`', async () => {
    expect((await send(host.origin, 'GET /own')).json).toEqual({ tenant: 'mine' })
  })
})
