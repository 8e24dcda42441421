/**
 * Hosts of each framework with receivers before the guard, a body parser and `POST /echo`, which returns tenant and
 * body; or with the guard before the receivers. Frameworks with such a setting use `x-forwarded-for` of any sender as
 * the client's address.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import type { NestExpressApplication } from '@nestjs/platform-express'
import express from 'express'
import { type FastifyInstance, fastify } from 'fastify'
import { type Context, Hono } from 'hono'
import Koa from 'koa'
import type { Mountable } from '../../src/http/app.ts'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onKoa from '../../src/http/hosts/koa.ts'
import * as onNest from '../../src/http/hosts/nestjs.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import * as onWeb from '../../src/http/hosts/web.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import type { Guard } from '../../src/tenants/guard/guard.ts'
import { addressOf, type Host, listening, webServer } from './hosts.ts'
import { EVERY_PATH, type NestSetup, nestOnExpress, nestOnFastify } from './nest-application.ts'

export interface Receiving {
  readonly receivers: Mountable
  readonly guard: Guard
  /** Whether the guard runs before the receivers. */
  readonly isGuardFirst: boolean
}

export const receiverHosts: Readonly<Record<string, (receiving: Receiving) => Promise<Host>>> = {
  node({ receivers, guard, isGuardFirst }) {
    const receive = onNode.nodeHandler(receivers)
    const answered = (outgoing: ServerResponse, status: number, body: object) =>
      outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    const mine = onNode.guard(guard, async (incoming, outgoing, tenant) => {
      if (incoming.url !== '/echo') return answered(outgoing, 404, { mine: true })
      return answered(outgoing, 200, { tenantId: tenant?.record.id, body: JSON.parse(await text(incoming)) })
    })
    const guarded = onNode.guard(guard, async (incoming, outgoing) =>
      receive(incoming, outgoing, () => answered(outgoing, 404, { mine: true })),
    )
    return listening(
      createServer((incoming, outgoing) => {
        if (isGuardFirst) void guarded(incoming, outgoing)
        else receive(incoming, outgoing, () => void mine(incoming, outgoing))
      }),
    )
  },

  express({ receivers, guard, isGuardFirst }) {
    const app = express()
    app.set('trust proxy', true)
    const [before, after] = [onExpress.expressHandler(receivers), onExpress.guard(guard)]
    app.use(...(isGuardFirst ? [after, before] : [before, after]))
    app.use(express.json())
    app.post('/echo', ({ tenant, body }, response) => void response.json({ tenantId: tenant?.record.id, body }))
    app.use((_request, response) => void response.status(404).json({ mine: true }))
    return listening(createServer(app))
  },

  async fastify({ receivers, guard, isGuardFirst }) {
    const app = fastify({ trustProxy: true })
    app.setNotFoundHandler((_request, reply) => reply.code(404).send({ mine: true }))
    if (isGuardFirst) {
      await app.register(onFastify.guard(guard))
      await app.register(onFastify.fastifyHandler(receivers))
    } else {
      await app.register(onFastify.fastifyHandler(receivers))
      await app.register(onFastify.guard(guard))
    }
    app.post('/echo', async ({ tenant, body }) => ({ tenantId: tenant?.record.id, body }))
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    return { origin, close: () => app.close() }
  },

  hono({ receivers, guard, isGuardFirst }) {
    const app = new Hono<onHono.GuardedEnv>()
    const ip = ({ req }: Context) => req.header('x-forwarded-for')
    const [before, after] = [onHono.honoHandler(receivers, { ip }), onHono.guard(guard)]
    app.use(...(isGuardFirst ? ([after, before] as const) : ([before, after] as const)))
    app.post('/echo', async (context) =>
      context.json({ tenantId: context.get('tenant')?.record.id, body: await context.req.json() }),
    )
    app.notFound((context) => context.json({ mine: true }, 404))
    return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
  },
  koa({ receivers, guard, isGuardFirst }) {
    const app = new Koa<onKoa.GuardedState>({ proxy: true })
    app.silent = true
    const [before, after] = [onKoa.koaHandler(receivers), onKoa.guard(guard)]
    for (const one of isGuardFirst ? [after, before] : [before, after]) app.use(one)
    app.use(async (context) => {
      context.status = context.path === '/echo' ? 200 : 404
      if (context.path !== '/echo') context.body = { mine: true }
      else context.body = { tenantId: context.state.tenant.record.id, body: JSON.parse(await text(context.req)) }
    })
    return listening(createServer(app.callback()))
  },

  web({ receivers, guard, isGuardFirst }) {
    const forwarded = ({ headers }: Request) => headers.get('x-forwarded-for') ?? undefined
    const mine = async (request: Request, { optionalTenant }: onWeb.GuardedFetch) =>
      new URL(request.url).pathname === '/echo'
        ? Response.json({ tenantId: optionalTenant?.record.id, body: await request.json() })
        : Response.json({ mine: true }, { status: 404 })
    const received = onWeb.fetchHandler<Request, [onWeb.GuardedFetch, HttpBindings]>(receivers, mine, {
      ip: forwarded,
      socketIp: (request, _, bindings) => addressOf(request, bindings),
    })
    const guardLast = onWeb.fetchHandler<Request, [HttpBindings]>(receivers, onWeb.guardFetch(guard, mine), {
      ip: forwarded,
      socketIp: addressOf,
    })
    return webServer(isGuardFirst ? onWeb.guardFetch(guard, received) : guardLast)
  },

  'nestjs with express': (receiving) =>
    nestOnExpress({
      ...nestSetup(receiving),
      before(app) {
        ;(app as NestExpressApplication).set('trust proxy', true)
        if (receiving.isGuardFirst) app.use(onNest.guard(receiving.guard))
        app.use(onExpress.expressHandler(receiving.receivers))
      },
    }),
  'nestjs with fastify': (receiving) =>
    nestOnFastify({
      ...nestSetup(receiving),
      async before(app) {
        const instance = app.getHttpAdapter().getInstance() as FastifyInstance
        if (receiving.isGuardFirst) await instance.register(onFastify.guard(receiving.guard))
        await instance.register(onFastify.fastifyHandler(receiving.receivers))
      },
    }),
}

const nestSetup = ({ guard }: Receiving): NestSetup => ({
  routes: [
    {
      method: 'POST',
      path: '/echo',
      handle: ({ request, response, tenant }) => {
        response.status(200)
        return { tenantId: tenant?.record.id, body: request.body }
      },
    },
    {
      method: 'ALL',
      path: EVERY_PATH,
      handle: ({ response }) => {
        response.status(404)
        return { mine: true }
      },
    },
  ],
  module: { tenancy: { kernel: { log: createLogger({ level: 'silent' }) } }, guard },
})
