/**
 * Hosts of each framework with a guard: routes receive tenant and body, and return JSON; other errors become "host:
 * ..".
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { createAdaptorServer } from '@hono/node-server'
import express, { type NextFunction, type Request, type Response } from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import type { GuardedListener } from '../../src/http/hosts/node-guard.ts'
import type { Logger } from '../../src/kernel/base/logger.ts'
import type { Guard, GuardedTenant } from '../../src/tenants/guard/guard.ts'
import { type Host, listening } from './hosts.ts'

export interface Called {
  readonly tenant: GuardedTenant | undefined
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
      app[method.toLowerCase() as 'get'](path, async ({ tenant, body }, response) => {
        response.json(await route({ tenant, body }))
      })
    }
    app.use(onExpress.problemHandler(log))
    app.use((error: Error, _request: Request, response: Response, _next: NextFunction) => {
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
        mine.route({ method, url: path, handler: async ({ tenant, body }) => route({ tenant, body }) })
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
}
