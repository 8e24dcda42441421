/** Hosts of each framework with guard, `enforceQuota` and a route; other errors become "host: ..". */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { createAdaptorServer } from '@hono/node-server'
import express, {
  type Request as ExpressRequest,
  type Response as ExpressResponse,
  type NextFunction,
  type RequestHandler,
} from 'express'
import { fastify } from 'fastify'
import { Hono, type MiddlewareHandler } from 'hono'
import Koa, { type Context } from 'koa'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onKoa from '../../src/http/hosts/koa.ts'
import * as onNest from '../../src/http/hosts/nestjs.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import * as onWeb from '../../src/http/hosts/web.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import type { Guard } from '../../src/tenants/guard/guard.ts'
import type { QuotaEnforcing, QuotaOptions } from '../../src/tenants/guard/quota-hook.ts'
import { HostFilter } from './guarded-hosts.ts'
import { type Host, listening, webServer } from './hosts.ts'
import { type NestSetup, nestOnExpress, nestOnFastify, readText } from './nest-application.ts'

/** Reads a header of a request of any framework. */
export type HeaderOf = (name: string) => string | undefined

export interface CountedRoute {
  readonly quota: string
  readonly options?: QuotaOptions<HeaderOf>
  /** Second quota of the route. */
  readonly also?: string
  readonly answer: (body: string) => object
}

export interface Counted {
  readonly quotas: QuotaEnforcing
  /** Absent: the host has forgotten the guard. */
  readonly guard: Guard | undefined
  /** POST routes by path. */
  readonly routes: Readonly<Record<string, CountedRoute>>
}

/** Converts options to requests of another framework. */
function optionsFor<Raw>(options: QuotaOptions<HeaderOf> = {}, headerOf: (raw: Raw) => HeaderOf): QuotaOptions<Raw> {
  const { amount } = options
  if (typeof amount !== 'function') return { ...options, amount }
  return { ...options, amount: (raw) => amount(headerOf(raw)) }
}

export const quotaHosts: Readonly<Record<string, (counted: Counted) => Promise<Host>>> = {
  node({ quotas, guard, routes }) {
    const answered = (outgoing: ServerResponse, status: number, type: string, body: string) => {
      outgoing.statusCode = status
      outgoing.setHeader('content-type', type).end(body)
    }
    const listeners = Object.entries(routes).map(([path, { quota, options, also, answer }]) => {
      const handler = async (incoming: IncomingMessage, outgoing: ServerResponse) =>
        answered(outgoing, 200, 'application/json', JSON.stringify(answer(await text(incoming))))
      const listener = onNode.enforceQuota(
        quotas,
        quota,
        also ? onNode.enforceQuota(quotas, also, handler) : handler,
        optionsFor(
          options,
          ({ headers }) =>
            (name) =>
              headers[name]?.toString(),
        ),
      )
      const guarded = guard
        ? onNode.guard(guard, listener)
        : (...request: Parameters<ReturnType<typeof onNode.guard>>) => listener(...request, undefined)
      return [path, guarded] as const
    })
    const byPath = new Map(listeners)
    return listening(
      createServer((incoming, outgoing) => {
        byPath
          .get(incoming.url ?? '')?.(incoming, outgoing)
          .catch((error: Error) => answered(outgoing, 500, 'text/plain', `host: ${error.message}`))
      }),
    )
  },

  express({ quotas, guard, routes }) {
    const app = express()
    if (guard) app.use(onExpress.guard(guard))
    for (const [path, { quota, options, also, answer }] of Object.entries(routes)) {
      const counted = optionsFor<ExpressRequest>(options, (request) => (name) => request.get(name))
      const first = onExpress.enforceQuota(quotas, quota, counted)
      const none: RequestHandler = (_request, _response, next) => next()
      app.post(path, first, also ? onExpress.enforceQuota(quotas, also) : none, async (request, response) => {
        response.json(answer(await text(request)))
      })
    }
    app.use((error: Error, _request: ExpressRequest, response: ExpressResponse, _next: NextFunction) => {
      response.status(500).send(`host: ${error.message}`)
    })
    return listening(createServer(app))
  },

  async fastify({ quotas, guard, routes }) {
    const app = fastify()
    app.setErrorHandler((error: Error, _request, reply) => reply.code(500).send(`host: ${error.message}`))
    app.addContentTypeParser('*', { parseAs: 'string' }, async (_request: unknown, body: string) => body)
    if (guard) await app.register(onFastify.guard(guard))
    for (const [path, { quota, options, also, answer }] of Object.entries(routes)) {
      const counted = optionsFor<Parameters<ReturnType<typeof onFastify.enforceQuota>>[0]>(
        options,
        ({ headers }) =>
          (name) =>
            headers[name]?.toString(),
      )
      const first = onFastify.enforceQuota(quotas, quota, counted)
      const onRequest = also ? [first, onFastify.enforceQuota(quotas, also)] : first
      app.post(path, { onRequest }, async ({ body }) => answer(String(body ?? '')))
    }
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    return { origin, close: () => app.close() }
  },

  hono({ quotas, guard, routes }) {
    const app = new Hono<onHono.GuardedEnv>()
    if (guard) app.use(onHono.guard(guard))
    for (const [path, { quota, options, also, answer }] of Object.entries(routes)) {
      const counted = optionsFor<Parameters<ReturnType<typeof onHono.enforceQuota>>[0]>(
        options,
        ({ req }) =>
          (name) =>
            req.header(name),
      )
      const none: MiddlewareHandler = (_, next) => next()
      const second = also ? onHono.enforceQuota(quotas, also) : none
      app.post(path, onHono.enforceQuota(quotas, quota, counted), second, async (context) =>
        context.json(answer(await context.req.text())),
      )
    }
    app.onError((error, context) => context.text(`host: ${error.message}`, 500))
    return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
  },
  koa({ quotas, guard, routes }) {
    const app = new Koa<onKoa.GuardedState>()
    app.use(async (context, next) => {
      try {
        await next()
      } catch (error) {
        context.status = 500
        context.body = `host: ${(error as Error).message}`
      }
    })
    if (guard) app.use(onKoa.guard(guard))
    for (const [path, { quota, options, also, answer }] of Object.entries(routes)) {
      const counted = optionsFor<Context>(
        options,
        ({ req }) =>
          (name) =>
            req.headers[name]?.toString(),
      )
      const first = onKoa.enforceQuota(quotas, quota, counted)
      const second = also ? onKoa.enforceQuota(quotas, also) : undefined
      app.use((context, next) => {
        if (context.path !== path) return next()
        const handler = async () => {
          context.body = answer(await text(context.req))
        }
        return first(context, () => (second ? second(context, handler) : handler()))
      })
    }
    return listening(createServer(app.callback()))
  },

  web({ quotas, guard, routes }) {
    const handlers = Object.entries(routes).map(([path, { quota, options, also, answer }]) => {
      const handler = async (request: Request) => Response.json(answer(await request.text()))
      const counted = optionsFor<Request>(
        options,
        ({ headers }) =>
          (name) =>
            headers.get(name) ?? undefined,
      )
      const second = also ? onWeb.enforceQuota(quotas, also, handler) : handler
      const limited = onWeb.enforceQuota(quotas, quota, second, counted)
      const without = { optionalTenant: undefined } as onWeb.GuardedFetch
      return [path, guard ? onWeb.guardFetch(guard, limited) : async (one: Request) => limited(one, without)] as const
    })
    const byPath = new Map(handlers)
    return webServer(async (request) => {
      try {
        return (await byPath.get(new URL(request.url).pathname)?.(request)) ?? new Response(null, { status: 404 })
      } catch (error) {
        return new Response(`host: ${(error as Error).message}`, { status: 500 })
      }
    })
  },

  'nestjs with express': (counted) => nestOnExpress(nestSetup(counted)),
  'nestjs with fastify': (counted) => nestOnFastify(nestSetup(counted)),
}

const nestSetup = ({ quotas, guard, routes }: Counted): NestSetup => {
  const log = createLogger({ level: 'silent' })
  return {
    routes: Object.entries(routes).map(([path, { quota, options, also, answer }]) => {
      const counted = optionsFor<IncomingMessage>(
        options,
        ({ headers }) =>
          (name) =>
            headers[name]?.toString(),
      )
      const guards = [onNest.enforceQuota(quotas, quota, counted), ...(also ? [onNest.enforceQuota(quotas, also)] : [])]
      return {
        method: 'POST',
        path,
        guards,
        handle: async ({ request, response }) => {
          response.status(200)
          return answer(typeof request.body === 'string' ? request.body : '')
        },
      }
    }),
    module: guard && { tenancy: { kernel: { log } }, guard },
    filters: [new HostFilter(), onNest.problemHandler(log)],
    before: readText,
  }
}
