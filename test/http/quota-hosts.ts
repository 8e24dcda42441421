/** Hosts of each framework with guard, `enforceQuota` and a route; other errors become "host: ..". */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { createAdaptorServer } from '@hono/node-server'
import express, { type NextFunction, type Request, type RequestHandler, type Response } from 'express'
import { fastify } from 'fastify'
import { Hono, type MiddlewareHandler } from 'hono'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import type { Guard } from '../../src/tenants/guard/guard.ts'
import type { QuotaEnforcing, QuotaOptions } from '../../src/tenants/guard/quota-hook.ts'
import { type Host, listening } from './hosts.ts'

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
      const counted = optionsFor<Request>(options, (request) => (name) => request.get(name))
      const first = onExpress.enforceQuota(quotas, quota, counted)
      const none: RequestHandler = (_request, _response, next) => next()
      app.post(path, first, also ? onExpress.enforceQuota(quotas, also) : none, async (request, response) => {
        response.json(answer(await text(request)))
      })
    }
    app.use((error: Error, _request: Request, response: Response, _next: NextFunction) => {
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
}
