/** The application on each framework that runs in the process of a test. */
import { createServer, type Server, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createAdaptorServer } from '@hono/node-server'
import { StreamableFile } from '@nestjs/common'
import express, { type Request as ExpressRequest } from 'express'
import { type FastifyRequest, fastify } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import * as onExpress from 'tenantry/express'
import * as onFastify from 'tenantry/fastify'
import * as onHono from 'tenantry/hono'
import * as onKoa from 'tenantry/koa'
import * as onNest from 'tenantry/nestjs'
import * as onNode from 'tenantry/node'
import { type Host, listening, webServer } from '../http/hosts.ts'
import { type NestCalled, type NestSetup, nestOnExpress, nestOnFastify } from '../http/nest-application.ts'
import { type Application, type Called, isStream, LIMITED } from './application.ts'
import { fetchApplication } from './fetch-application.ts'

const lines = ({ routes }: Application) =>
  Object.entries(routes).map(([line, route]) => {
    const [method = '', path = ''] = line.split(' ')
    return { method, path, route, isLimited: line === LIMITED }
  })

/** Takes the tenant from a request or context only when the route reads it. */
const calledOf = (
  from: Pick<Called, 'tenant' | 'optionalTenant' | 'impersonation'>,
  body: Uint8Array,
  headers: Called['headers'],
): Called => ({
  get tenant() {
    return from.tenant
  },
  optionalTenant: from.optionalTenant,
  impersonation: from.impersonation,
  body,
  headers,
})

function writeTo(outgoing: ServerResponse, result: object): void {
  if (isStream(result)) return void Readable.from(result).pipe(outgoing)
  outgoing.setHeader('content-type', 'application/json').end(JSON.stringify(result))
}

export const hosts: Readonly<Record<string, (application: Application) => Promise<Host>>> = {
  'node:http'(application) {
    const { tenancy, http, guard } = application
    const listeners = new Map(
      lines(application).map(({ method, path, route, isLimited }) => {
        const listener = onNode.impersonation(tenancy.impersonation, async (incoming, outgoing, tenant, active) => {
          const from = {
            get tenant() {
              return onNode.requireTenant(tenant)
            },
            optionalTenant: tenant,
            impersonation: active,
          }
          writeTo(outgoing, await route(calledOf(from, await buffer(incoming), incoming.headers)))
        })
        const limited = isLimited ? onNode.enforceQuota(tenancy.quotas, 'exports', listener) : listener
        return [`${method} ${path}`, onNode.guard(guard, limited)]
      }),
    )
    const failed = onNode.problemHandler(tenancy.kernel.log)
    const handle = onNode.nodeHandler(http)
    return listening(
      createServer((incoming, outgoing) =>
        handle(incoming, outgoing, () => {
          listeners
            .get(`${incoming.method} ${incoming.url}`)?.(incoming, outgoing)
            .catch((error) => failed(error, incoming, outgoing) || outgoing.writeHead(500).end('host'))
        }),
      ),
    )
  },

  express(application) {
    const { tenancy, http, guard } = application
    const app = express()
    app.use(onExpress.expressHandler(http), onExpress.guard(guard), onExpress.impersonation(tenancy.impersonation))
    app.use(express.raw({ type: () => true, limit: '1mb' }))
    for (const { method, path, route, isLimited } of lines(application)) {
      const before = isLimited ? [onExpress.enforceQuota(tenancy.quotas, 'exports')] : []
      app[method.toLowerCase() as 'get'](path, ...before, async (request: ExpressRequest, response) => {
        writeTo(response, await route(calledOf(request as Called, request.body ?? new Uint8Array(), request.headers)))
      })
    }
    app.use(onExpress.problemHandler(tenancy.kernel.log))
    app.use(((_error, _request, response, _next) => response.status(500).send('host')) as express.ErrorRequestHandler)
    return listening(createServer(app))
  },

  async fastify(application) {
    const { tenancy, http, guard } = application
    const app = fastify()
    await app.register(onFastify.fastifyHandler(http))
    app.setErrorHandler((_error, _request, reply) => reply.code(500).send('host'))
    await app.register(async (mine) => {
      await mine.register(onFastify.guard(guard)) // on the whole application it would guard the admin API, too
      await mine.register(onFastify.impersonation(tenancy.impersonation))
      mine.setErrorHandler(onFastify.problemHandler(tenancy.kernel.log))
      mine.removeAllContentTypeParsers()
      mine.addContentTypeParser('*', { parseAs: 'buffer' }, async (_: unknown, body: Buffer) => body)
      for (const { method, path, route, isLimited } of lines(application)) {
        const onRequest = isLimited ? [onFastify.enforceQuota(tenancy.quotas, 'exports')] : []
        mine.route({
          method,
          url: path,
          onRequest,
          handler: async (request: FastifyRequest) => {
            const body = (request.body as Buffer | undefined) ?? new Uint8Array()
            const result = await route(calledOf(request as unknown as Called, body, request.headers))
            return isStream(result) ? Readable.from(result) : result
          },
        })
      }
    })
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    return { origin, close: () => app.close() }
  },

  hono(application) {
    const { tenancy, http, guard } = application
    const app = new Hono<onHono.GuardedEnv>()
    app.use(onHono.honoHandler(http), onHono.guard(guard), onHono.impersonation(tenancy.impersonation))
    for (const { method, path, route, isLimited } of lines(application)) {
      if (isLimited) app.use(path, onHono.enforceQuota(tenancy.quotas, 'exports'))
      app.on(method, path, async (context) => {
        const from = {
          get tenant() {
            return onHono.tenantOf(context)
          },
          optionalTenant: context.get('tenant'),
          impersonation: context.get('impersonation'),
        }
        const body = new Uint8Array(await context.req.arrayBuffer())
        const result = await route(calledOf(from, body, context.req.raw.headers))
        if (!isStream(result)) return context.json(result)
        return context.body(Readable.toWeb(Readable.from(result)) as ReadableStream)
      })
    }
    app.onError(onHono.problemHandler(tenancy.kernel.log, (_, context) => context.text('host', 500)))
    return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
  },

  koa(application) {
    const { tenancy, http, guard } = application
    const app = new Koa<onKoa.GuardedState>()
    app.silent = true
    app.use(onKoa.koaHandler(http)).use(onKoa.guard(guard)).use(onKoa.problemHandler(tenancy.kernel.log))
    app.use(onKoa.impersonation(tenancy.impersonation))
    const limit = onKoa.enforceQuota(tenancy.quotas, 'exports')
    app.use((context, next) => (`${context.method} ${context.path}` === LIMITED ? limit(context, next) : next()))
    app.use(async (context) => {
      const route = application.routes[`${context.method} ${context.path}`]
      if (!route) return
      const result = await route(calledOf(context.state as Called, await buffer(context.req), context.req.headers))
      context.body = isStream(result) ? Readable.from(result) : result
    })
    return listening(createServer(app.callback()))
  },

  'web standard on node:http'(application) {
    const handle = fetchApplication(application)
    return webServer((request) => handle(request).catch(() => new Response('host', { status: 500 })))
  },

  'nestjs with express': (application) =>
    nestOnExpress({
      ...nestSetup(application),
      before(app) {
        app.use(onExpress.expressHandler(application.http), express.raw({ type: () => true, limit: '1mb' }))
      },
    }),

  'nestjs with fastify': (application) =>
    nestOnFastify({
      ...nestSetup(application),
      async before(app) {
        const instance = app.getHttpAdapter().getInstance() as unknown as ReturnType<typeof fastify>
        await instance.register(onFastify.fastifyHandler(application.http))
        instance.removeAllContentTypeParsers()
        instance.addContentTypeParser('*', { parseAs: 'buffer' }, async (_: unknown, body: Buffer) => body)
      },
    }),
}

/** Their parameter is `@CurrentTenant({ optional: true })`. */
const WITHOUT_TENANT = ['/central/plain', '/central/storage', '/hooks/orders']

const nestSetup = (application: Application): NestSetup => {
  const { tenancy, guard } = application
  return {
    routes: lines(application).map(({ method, path, route, isLimited }) => ({
      method,
      path,
      guards: isLimited ? [onNest.enforceQuota(tenancy.quotas, 'exports')] : [],
      needsTenant: !WITHOUT_TENANT.includes(path),
      async handle({ request, response, tenant, impersonation }: NestCalled) {
        response.status(200)
        const from = { tenant: tenant as Called['tenant'], optionalTenant: tenant, impersonation }
        const body = Buffer.isBuffer(request.body) ? request.body : new Uint8Array()
        const result = await route(calledOf(from, body, request.headers))
        return isStream(result) ? new StreamableFile(Readable.from(bytesOf(result))) : result
      },
    })),
    module: { tenancy, guard, middleware: [onNest.impersonation(tenancy.impersonation)] },
    bodyParser: false,
  }
}

/** A StreamableFile sends bytes only. */
async function* bytesOf(texts: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const text of texts) yield Buffer.from(text)
}
