/** Hosts of each framework with guard, `impersonation` and a route; other errors become "host: ..". */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import express, { type Request as ExpressRequest, type Response as ExpressResponse, type NextFunction } from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import type { ImpersonationOptions } from '../../src/http/hosts/impersonated.ts'
import * as onKoa from '../../src/http/hosts/koa.ts'
import * as onNest from '../../src/http/hosts/nestjs.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import type { ImpersonatedListener } from '../../src/http/hosts/node-guard.ts'
import * as onWeb from '../../src/http/hosts/web.ts'
import type { ActiveImpersonation } from '../../src/kernel/base/context.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import type { Guard } from '../../src/tenants/guard/guard.ts'
import type { Impersonating } from '../../src/tenants/guard/impersonation-hook.ts'
import { HostFilter } from './guarded-hosts.ts'
import { addressOf, type Host, listening, webServerWithErrors } from './hosts.ts'
import { EVERY_PATH, type NestSetup, nestOnExpress, nestOnFastify, readText } from './nest-application.ts'

export interface Called {
  readonly tenantId: string | undefined
  readonly impersonation: ActiveImpersonation | undefined
  readonly body: string
}

export interface Acted {
  readonly guard: Guard
  readonly impersonation: Impersonating
  readonly options?: ImpersonationOptions
  /** Whether the guard comes after `impersonation`, which is an error. */
  readonly isReversed?: boolean
  /** Route for every path and method. */
  readonly route: (called: Called) => object | Promise<object>
}

export const impersonationHosts: Readonly<Record<string, (acted: Acted) => Promise<Host>>> = {
  node({ guard, impersonation, options, isReversed, route }) {
    const answered = (outgoing: ServerResponse, status: number, type: string, body: string) => {
      outgoing.statusCode = status
      outgoing.setHeader('content-type', type).end(body)
    }
    const listener: ImpersonatedListener<Promise<void>> = async (incoming, outgoing, tenant, active) => {
      const body = await text(incoming)
      const result = await route({ tenantId: tenant?.id, impersonation: active, body })
      answered(outgoing, 200, 'application/json', JSON.stringify(result))
    }
    const late = onNode.guard(guard, (incoming, outgoing, tenant) => listener(incoming, outgoing, tenant, undefined))
    const reversed = onNode.impersonation(impersonation, (incoming, outgoing) => late(incoming, outgoing), options)
    const guarded = isReversed
      ? (incoming: IncomingMessage, outgoing: ServerResponse) => reversed(incoming, outgoing, undefined)
      : onNode.guard(guard, onNode.impersonation(impersonation, listener, options))
    return listening(
      createServer((incoming, outgoing) => {
        guarded(incoming, outgoing).catch((error: Error) =>
          answered(outgoing, 500, 'text/plain', `host: ${error.message}`),
        )
      }),
    )
  },

  express({ guard, impersonation, options, isReversed, route }) {
    const app = express()
    const middleware = [onExpress.guard(guard), onExpress.impersonation(impersonation, options)]
    app.use(isReversed ? middleware.reverse() : middleware, express.text({ type: '*/*' }))
    app.use(async ({ optionalTenant, impersonation, body }, response) => {
      response.json(
        await route({ tenantId: optionalTenant?.id, impersonation, body: typeof body === 'string' ? body : '' }),
      )
    })
    app.use((error: Error, _request: ExpressRequest, response: ExpressResponse, _next: NextFunction) => {
      response.status(500).send(`host: ${error.message}`)
    })
    return listening(createServer(app))
  },

  async fastify({ guard, impersonation, options, isReversed, route }) {
    const app = fastify()
    app.setErrorHandler((error: Error, _request, reply) => reply.code(500).send(`host: ${error.message}`))
    app.addContentTypeParser('*', { parseAs: 'string' }, async (_request: unknown, body: string) => body)
    const plugins = [onFastify.guard(guard), onFastify.impersonation(impersonation, options)]
    for (const plugin of isReversed ? plugins.reverse() : plugins) await app.register(plugin)
    app.all('/*', async ({ optionalTenant, impersonation, body }) =>
      route({ tenantId: optionalTenant?.id, impersonation, body: String(body ?? '') }),
    )
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    return { origin, close: () => app.close() }
  },

  hono({ guard, impersonation, options, isReversed, route }) {
    const app = new Hono<onHono.GuardedEnv>()
    const middleware = [onHono.guard(guard), onHono.impersonation(impersonation, options)]
    app.use(...(isReversed ? middleware.reverse() : middleware))
    app.all('*', async (context) => {
      const body = await context.req.text()
      const called = { tenantId: context.get('tenant')?.id, impersonation: context.get('impersonation'), body }
      return context.json(await route(called))
    })
    app.onError((error, context) => context.text(`host: ${error.message}`, 500))
    return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
  },
  koa({ guard, impersonation, options, isReversed, route }) {
    const app = new Koa<onKoa.GuardedState>()
    app.use(async (context, next) => {
      try {
        await next()
      } catch (error) {
        context.status = 500
        context.body = `host: ${(error as Error).message}`
      }
    })
    const middleware = [onKoa.guard(guard), onKoa.impersonation(impersonation, options)]
    for (const one of isReversed ? middleware.reverse() : middleware) app.use(one)
    app.use(async (context) => {
      const { optionalTenant, impersonation } = context.state
      context.body = await route({ tenantId: optionalTenant?.id, impersonation, body: await text(context.req) })
    })
    return listening(createServer(app.callback()))
  },

  web({ guard, impersonation, options, isReversed, route }) {
    const handler = async (request: Request, { optionalTenant, impersonation }: onWeb.GuardedFetch) =>
      Response.json(await route({ tenantId: optionalTenant?.id, impersonation, body: await request.text() }))
    const late = onWeb.guardFetch(guard, handler)
    const reversed = onWeb.impersonation(impersonation, (request) => late(request), options)
    const without = { optionalTenant: undefined } as onWeb.GuardedFetch
    const impersonated = onWeb.impersonation<Request, [HttpBindings]>(impersonation, handler, options)
    const handle = isReversed
      ? async (request: Request) => reversed(request, without)
      : onWeb.guardFetch(guard, impersonated, { ip: addressOf })
    return webServerWithErrors(handle)
  },

  'nestjs with express': (acted) => nestOnExpress(nestSetup(acted)),
  'nestjs with fastify': (acted) => nestOnFastify(nestSetup(acted)),
}

const nestSetup = ({ guard, impersonation, options, isReversed, route }: Acted): NestSetup => {
  const log = createLogger({ level: 'silent' })
  const middleware = onNest.impersonation(impersonation, options)
  return {
    routes: [
      {
        method: 'ALL',
        path: EVERY_PATH,
        handle: async ({ request, response, tenant, impersonation }) => {
          response.status(200)
          const body = typeof request.body === 'string' ? request.body : ''
          return route({ tenantId: tenant?.id, impersonation, body })
        },
      },
    ],
    module: { tenancy: { kernel: { log } }, guard, middleware: isReversed ? [] : [middleware] },
    filters: [new HostFilter(), onNest.problemHandler(log)],
    before(app) {
      if (isReversed) app.use(middleware)
      readText(app)
    },
  }
}
