/**
 * Serves the admin API on a socket with each framework. Each host adds `GET /mine`, which returns "mine", and its own
 * 404. `service` is last, because it replaces the process's Request and Response.
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import express from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import type { Http } from '../../src/http/app.ts'
import { expressHandler } from '../../src/http/hosts/express.ts'
import { fastifyHandler } from '../../src/http/hosts/fastify.ts'
import { honoHandler } from '../../src/http/hosts/hono.ts'
import { koaHandler } from '../../src/http/hosts/koa.ts'
import { nodeHandler, serveNode } from '../../src/http/hosts/node.ts'

type FetchCallback = Parameters<typeof createAdaptorServer>[0]['fetch']

export interface Host {
  readonly origin: string
  close(): Promise<void>
}

export const hosts: Readonly<Record<string, (http: Http) => Promise<Host>>> = {
  node(http) {
    const handle = nodeHandler(http)
    const server = createServer((request, response) =>
      handle(request, response, () => {
        const isMine = request.url === '/mine'
        response.writeHead(isMine ? 200 : 404).end(isMine ? 'mine' : 'not mine')
      }),
    )
    return listening(server)
  },
  express(http) {
    const app = express()
    app.use(expressHandler(http))
    app.get('/mine', (_request, response) => void response.send('mine'))
    return listening(createServer(app))
  },
  async fastify(http) {
    const app = fastify()
    await app.register(fastifyHandler(http))
    app.get('/mine', async () => 'mine')
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    return { origin, close: () => app.close() }
  },
  hono(http) {
    const app = new Hono()
    app.use(honoHandler(http))
    app.get('/mine', (context) => context.text('mine'))
    return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
  },
  koa(http) {
    const app = new Koa()
    app.use(koaHandler(http))
    app.use((context) => {
      if (context.path === '/mine') context.body = 'mine'
    })
    return listening(createServer(app.callback()))
  },
  async service(http) {
    const server = await serveNode(http, { port: 0, host: '127.0.0.1' })
    return { origin: server.url, close: () => server.close(0) }
  },
}

/** A server of the web standard. Its second argument is the request and response of node. */
export const webServer = (fetch: (request: Request, bindings: HttpBindings) => Promise<Response>): Promise<Host> =>
  listening(createAdaptorServer({ fetch: fetch as FetchCallback, overrideGlobalObjects: false }) as Server)

/** The same, with the response of the host for errors that its routes throw. */
export const webServerWithErrors: typeof webServer = (fetch) =>
  webServer(async (request, bindings) => {
    try {
      return await fetch(request, bindings)
    } catch (error) {
      return new Response(`host: ${(error as Error).message}`, { status: 500 })
    }
  })

export const addressOf = (_: Request, { incoming }: HttpBindings): string | undefined => incoming.socket.remoteAddress

export async function listening(server: Server): Promise<Host> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const close = async () => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close }
}
