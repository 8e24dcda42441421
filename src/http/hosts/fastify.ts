import type { FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { Http } from '../app.ts'
import { answer } from './listener.ts'

/**
 * A plugin for Fastify: routes of every method for our paths, all others stay yours. They answer in `onRequest`, after the
 * hooks of the instance it is registered on and before anything reads the body. Headers those hooks set stay.
 *
 *   const app = fastify()
 *   await app.register(fastifyHandler(createHttp(tenancy, { adminTokens })))
 *   app.get('/', async () => 'mine')
 *   await app.listen({ port: 3000 })
 */
export function fastifyHandler(http: Http): FastifyPluginCallback {
  const onRequest = (request: FastifyRequest, reply: FastifyReply): void => {
    reply.hijack()
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) reply.raw.setHeader(name, value)
    }
    answer(http, request.raw, reply.raw, { ip: request.ip })
  }
  return (app, _options, done) => {
    const isBelow = (route: string) => route === app.prefix || route.startsWith(`${app.prefix}/`)
    if (!http.routes.every(isBelow)) {
      return done(
        new Error(`register it without a prefix: below ${app.prefix} it would not be at ${http.routes.join(', ')}`),
      )
    }
    for (const route of http.routes) {
      // The handler is never reached, but Fastify wants one.
      app.route({ method: app.supportedMethods, url: route.slice(app.prefix.length), onRequest, handler: onRequest })
    }
    done()
  }
}
