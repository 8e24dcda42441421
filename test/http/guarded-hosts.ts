/**
 * Hosts of each framework with a guard: routes receive tenant and body, and return JSON; other errors become "host:
 * ..".
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common'
import express, { type Request as ExpressRequest, type Response as ExpressResponse, type NextFunction } from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onKoa from '../../src/http/hosts/koa.ts'
import * as onNest from '../../src/http/hosts/nestjs.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import type { GuardedListener } from '../../src/http/hosts/node-guard.ts'
import * as onWeb from '../../src/http/hosts/web.ts'
import type { Logger } from '../../src/kernel/base/logger.ts'
import type { Guard } from '../../src/tenants/guard/guard.ts'
import type { Tenant } from '../../src/tenants/handles/handle.ts'
import { addressOf, type Host, listening, webServerWithErrors } from './hosts.ts'
import { type NestSetup, nestOnExpress, nestOnFastify } from './nest-application.ts'

export interface Called {
  readonly tenant: Tenant | undefined
  readonly body: unknown
}

/** By method and path, such as `POST /echo`. */
export type Routes = Readonly<Record<string, (called: Called) => unknown>>

export interface Guarded {
  readonly guard: Guard
  /** Second guard after the first one. */
  readonly second?: Guard
  readonly routes: Routes
  readonly log: Logger
}

const entries = (routes: Routes) =>
  Object.entries(routes).map(([line, route]) => {
    const [method = '', path = ''] = line.split(' ')
    return { method, path, route }
  })

export const guardedHosts: Readonly<Record<string, (guarded: Guarded) => Promise<Host>>> = {
  node({ guard, second, routes, log }) {
    const answered = (outgoing: ServerResponse, status: number, body: string) =>
      outgoing.writeHead(status, { 'content-type': status === 200 ? 'application/json' : 'text/plain' }).end(body)
    const listener: GuardedListener<Promise<unknown>> = async (incoming, outgoing, tenant) => {
      const method = incoming.method === 'HEAD' ? 'GET' : incoming.method
      const route = routes[`${method} ${incoming.url?.split('?')[0]}`]
      if (!route) return answered(outgoing, 404, 'not mine')
      const body = await text(incoming)
      const reply = await route({ tenant, body: body ? JSON.parse(body) : undefined })
      return answered(outgoing, 200, JSON.stringify(reply))
    }
    const listen = onNode.guard(guard, second ? onNode.guard(second, listener) : listener)
    const failed = onNode.problemHandler(log)
    return listening(
      createServer((incoming, outgoing) => {
        listen(incoming, outgoing).catch((error) => {
          if (!failed(error, incoming, outgoing)) answered(outgoing, 500, `host: ${error.message}`)
        })
      }),
    )
  },

  express({ guard, second, routes, log }) {
    const app = express()
    app.use(onExpress.guard(guard))
    if (second) app.use(onExpress.guard(second))
    app.use(express.json())
    for (const { method, path, route } of entries(routes)) {
      app[method.toLowerCase() as 'get'](path, async ({ optionalTenant, body }, response) => {
        response.json(await route({ tenant: optionalTenant, body }))
      })
    }
    app.use(onExpress.problemHandler(log))
    app.use((error: Error, _request: ExpressRequest, response: ExpressResponse, _next: NextFunction) => {
      response.status(500).send(`host: ${error.message}`)
    })
    return listening(createServer(app))
  },

  async fastify({ guard, second, routes, log }) {
    const app = fastify()
    app.setErrorHandler((error: Error, _request, reply) => reply.code(500).send(`host: ${error.message}`))
    await app.register(onFastify.guard(guard))
    if (second) await app.register(onFastify.guard(second))
    await app.register(async (mine) => {
      mine.setErrorHandler(onFastify.problemHandler(log))
      for (const { method, path, route } of entries(routes)) {
        mine.route({
          method,
          url: path,
          handler: async ({ optionalTenant, body }) => route({ tenant: optionalTenant, body }),
        })
      }
    })
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    return { origin, close: () => app.close() }
  },

  hono({ guard, second, routes, log }) {
    const app = new Hono<onHono.GuardedEnv>()
    app.use(onHono.guard(guard))
    if (second) app.use(onHono.guard(second))
    for (const { method, path, route } of entries(routes)) {
      app.on(method, path, async (context) => {
        const body = context.req.method === 'POST' ? await context.req.json() : undefined
        return context.json((await route({ tenant: context.get('tenant'), body })) as object)
      })
    }
    app.onError(onHono.problemHandler(log, (error, context) => context.text(`host: ${error.message}`, 500)))
    return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
  },
  koa({ guard, second, routes, log }) {
    const app = new Koa<onKoa.GuardedState>()
    app.use(async (context, next) => {
      try {
        await next()
      } catch (error) {
        context.status = 500
        context.body = `host: ${(error as Error).message}`
      }
    })
    app.use(onKoa.guard(guard))
    if (second) app.use(onKoa.guard(second))
    app.use(onKoa.problemHandler(log))
    app.use(async (context) => {
      const route = routes[`${context.method === 'HEAD' ? 'GET' : context.method} ${context.path}`]
      if (!route) return
      const body = await text(context.req)
      const reply = await route({ tenant: context.state.optionalTenant, body: body ? JSON.parse(body) : undefined })
      context.type = 'application/json'
      context.body = JSON.stringify(reply)
    })
    return listening(createServer(app.callback()))
  },

  web({ guard, second, routes, log }) {
    const route = onWeb.problemHandler<Request, [HttpBindings]>(log, async (request, { optionalTenant }) => {
      const route = routes[`${request.method === 'HEAD' ? 'GET' : request.method} ${new URL(request.url).pathname}`]
      if (!route) return new Response('not mine', { status: 404 })
      const body = request.method === 'POST' ? await request.json() : undefined
      return Response.json(await route({ tenant: optionalTenant, body }))
    })
    const inner = second && onWeb.guardFetch(second, route, { ip: addressOf })
    const handle = onWeb.guardFetch<Request, [HttpBindings]>(
      guard,
      inner ? (request, _, bindings) => inner(request, bindings) : route,
      { ip: addressOf },
    )
    return webServerWithErrors(handle)
  },

  'nestjs with express': (guarded) => nestOnExpress(nestSetup(guarded)),
  'nestjs with fastify': (guarded) => nestOnFastify(nestSetup(guarded)),
}

/** The filter of the host for its own errors. Those of Express and Fastify differ only in the response. */
const nestSetup = ({ guard, second, routes, log }: Guarded): NestSetup => ({
  routes: entries(routes).map(({ method, path, route }) => ({
    method,
    path,
    handle: async ({ request, tenant, response }) => {
      const reply = await route({ tenant, body: request.body })
      response.status(200).header('content-type', 'application/json; charset=utf-8')
      return JSON.stringify(reply)
    },
  })),
  module: {
    tenancy: { kernel: { log } },
    guard,
    middleware: second ? [onNest.guard(second)] : [],
  },
  filters: [new HostFilter(), onNest.problemHandler(log)],
})

/** Catches every error, as the filter of a host may do. */
export class HostFilter implements ExceptionFilter {
  catch(error: Error, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse()
    if (error instanceof HttpException) response.status(error.getStatus()).send(error.getResponse())
    else response.status(500).send(`host: ${error.message}`)
  }
}
Catch()(HostFilter)
