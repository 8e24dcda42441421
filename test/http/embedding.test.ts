/** The admin API inside a host that has its own middleware, hooks, parsers and mount points. */
import { createServer, type Server } from 'node:http'
import { createAdaptorServer } from '@hono/node-server'
import express, { type Express, type NextFunction, type Request, type Response } from 'express'
import { type FastifyInstance, fastify } from 'fastify'
import { Hono } from 'hono'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { expressHandler } from '../../src/http/hosts/express.ts'
import { fastifyHandler } from '../../src/http/hosts/fastify.ts'
import { honoHandler } from '../../src/http/hosts/hono.ts'
import { operation } from '../../src/kernel/api/operation.ts'
import { currentContext } from '../../src/kernel/base/context.ts'
import { defineSatellite } from '../../src/tenancy/satellite.ts'
import { type Host, hosts, listening } from './hosts.ts'
import { ADMIN, PREFIX, type Sent, type Served, send, served } from './served.ts'

const whoSatellite = defineSatellite({
  name: 'who',
  summary: 'Returns the address of the client',
  service: () => null,
  operations: [
    operation({
      name: 'who.amI',
      method: 'GET',
      path: '/who',
      summary: 'Address from which the request was sent',
      reply: z.object({ ip: z.string().nullable() }),
      handle: async () => ({ ip: currentContext().ip }),
    }),
  ],
})

let tenancy: Served
let host: Host
beforeAll(async () => {
  tenancy = await served(inject('postgresUrl'), [whoSatellite], {}, 'api')
})
afterAll(() => tenancy.stop())
afterEach(() => host?.close())

const post = (body: unknown, headers: Sent['headers'] = {}) =>
  send(host.origin, `POST ${PREFIX}/tenants`, { headers: { ...ADMIN, ...headers }, body })

/** @param forwardedFor header of a proxy in front of the host */
const whoAmI = (forwardedFor: string) =>
  send(host.origin, `GET ${PREFIX}/who`, { headers: { ...ADMIN, 'x-forwarded-for': forwardedFor } })

describe('Express', () => {
  let app: Express
  beforeEach(() => {
    app = express()
  })
  const listen = async () => {
    app.use(
      (_error: Error, _request: Request, response: Response, _next: NextFunction) =>
        void response.status(500).send('host'),
    )
    host = await listening(createServer(app))
  }

  test('accepts a body that express.json() has read', async () => {
    app.use(express.json(), expressHandler(tenancy.http))
    await listen()
    expect(await post({ name: 'Äcme', metadata: { a: [1, null] } })).toMatchObject({
      status: 201,
      json: { name: 'Äcme', metadata: { a: [1, null] } },
    })
    expect(await post({ name: 'Acme', colour: 'red' })).toMatchObject({
      status: 400,
      json: { code: 'E_INVALID_REQUEST' },
    })
    expect(await send(host.origin, `GET ${PREFIX}/tenants`, { headers: ADMIN })).toMatchObject({ status: 200 })
    expect(await send(host.origin, `PUT ${PREFIX}/tenants/unknown/suspend`, { headers: ADMIN })).toMatchObject({
      status: 404,
    })
  })

  test("leaves a body that express.json() rejects to the host's error handler", async () => {
    app.use(express.json(), expressHandler(tenancy.http))
    await listen()
    expect(await post('{')).toMatchObject({ status: 500, body: 'host' })
    expect(await post({ name: 'x'.repeat(200_000) })).toMatchObject({ status: 500, body: 'host' })
  })

  test('prefers a raw body to a parsed one', async () => {
    const keep = (request: object, _response: unknown, rawBody: Buffer) => void Object.assign(request, { rawBody })
    app.use(express.json({ verify: keep }), expressHandler(tenancy.http))
    await listen()
    expect(await post('{"name":"Acme","name":"Evil"}')).toMatchObject({ status: 400, json: { code: 'E_INVALID_JSON' } })
  })

  test('accepts a body that was read as text or bytes', async () => {
    app.use('/admin', express.text({ type: 'application/json' }))
    app.use(express.raw({ type: 'application/merge-patch+json' }), expressHandler(tenancy.http))
    await listen()
    expect(await post('{')).toMatchObject({ status: 400, json: { code: 'E_INVALID_JSON' } })
    const made = await post({ name: 'Acme' })
    expect(made).toMatchObject({ status: 201 })
    const patch = { headers: { ...ADMIN, 'content-type': 'application/merge-patch+json' }, body: { name: 'Other' } }
    expect(await send(host.origin, `PATCH ${PREFIX}/tenants/${made.json.id}`, patch)).toMatchObject({
      status: 200,
      json: { name: 'Other' },
    })
  })

  test('reports a body that was read and not kept to the host', async () => {
    app.use((request, _response, next) => void request.resume().on('end', next), expressHandler(tenancy.http))
    await listen()
    expect(await post({ name: 'Acme' })).toMatchObject({ status: 500, body: 'host' })
  })

  test('works below a mount point, with the complete path', async () => {
    app.use('/admin', expressHandler(tenancy.http))
    app.use((_request, response) => void response.status(404).send('host'))
    await listen()
    expect(await post({ name: 'Acme' })).toMatchObject({ status: 201 })
    expect(await send(host.origin, `GET ${PREFIX}/tenants?limit=1`, { headers: ADMIN })).toMatchObject({ status: 200 })
    expect(await send(host.origin, 'GET /admin/else')).toMatchObject({ status: 404, body: 'host' })
    expect(await send(host.origin, 'GET /livez')).toMatchObject({ status: 404, body: 'host' })
  })

  test("keeps the host's headers, and uses the host's address of the client", async () => {
    app.set('trust proxy', true)
    app.use((_request, response, next) => {
      response.setHeader('x-host', 'mine')
      next()
    })
    app.use(expressHandler(tenancy.http))
    await listen()
    expect(await whoAmI('203.0.113.9')).toMatchObject({
      json: { ip: '203.0.113.9' },
      headers: { 'x-host': 'mine', 'x-powered-by': 'Express' },
    })
  })
})

describe('Fastify', () => {
  let app: FastifyInstance
  beforeEach(() => {
    app = fastify()
  })
  const listen = async () => {
    host = { origin: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  }

  test('the admin API and the host do not share parsers and limits', async () => {
    app = fastify({ bodyLimit: 10 })
    app.addContentTypeParser('application/json', (_request, _payload, done) => done(new Error('the host parses')))
    await app.register(fastifyHandler(tenancy.http))
    app.post('/mine', async () => 'mine')
    await listen()
    expect(await post({ name: 'Acme' })).toMatchObject({ status: 201 })
    expect(await send(host.origin, 'POST /mine', { body: {} })).toMatchObject({ status: 500 })
  })

  test("runs after the host's hooks, and keeps their headers", async () => {
    app.addHook('onRequest', async (request, reply) => {
      reply.header('x-host', 'mine')
      if (request.headers['x-blocked']) return reply.code(418).send('blocked')
    })
    await app.register(fastifyHandler(tenancy.http))
    await listen()
    expect(await post({ name: 'Acme' })).toMatchObject({ status: 201, headers: { 'x-host': 'mine' } })
    expect(await post({ name: 'Acme' }, { 'x-blocked': '1' })).toMatchObject({ status: 418, body: 'blocked' })
  })

  test("uses the host's address of the client", async () => {
    app = fastify({ trustProxy: true })
    await app.register(fastifyHandler(tenancy.http))
    await listen()
    expect(await whoAmI('203.0.113.9')).toMatchObject({ json: { ip: '203.0.113.9' } })
  })

  test('responds to inject()', async () => {
    await app.register(fastifyHandler(tenancy.http))
    host = { origin: '', close: () => app.close() }
    const made = await app.inject({
      method: 'POST',
      url: `${PREFIX}/tenants`,
      headers: ADMIN,
      payload: { name: 'Acme' },
    })
    expect(made.statusCode).toBe(201)
    const read = await app.inject({ url: `${PREFIX}/tenants/${made.json().id}`, headers: ADMIN })
    expect(read.json()).toMatchObject({ name: 'Acme' })
    expect((await app.inject({ url: `${PREFIX}/tenants` })).statusCode).toBe(401)
    expect((await app.inject({ method: 'HEAD', url: '/livez' })).body).toBe('')
  })

  test('rejects registration below a prefix that its own prefix does not start with', async () => {
    host = { origin: '', close: () => app.close() }
    const http = { ...tenancy.http, routes: [PREFIX, `${PREFIX}/*`] }
    await app.register(fastifyHandler(http), { prefix: '/admin' })
    expect((await app.inject({ url: `${PREFIX}/tenants`, headers: ADMIN })).statusCode).toBe(200)
    const misplaced = async () => fastify().register(fastifyHandler(tenancy.http), { prefix: '/api' })
    await expect(misplaced()).rejects.toThrow('register it without a prefix: below /api it would not be at /livez, ')
  })
})

describe('Hono', () => {
  let app: Hono
  beforeEach(() => {
    app = new Hono()
  })
  const listen = async () => {
    host = await listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
  }

  test('accepts a body that was read before', async () => {
    app.use(async (context, next) => {
      await context.req.json()
      await next()
    })
    app.use(honoHandler(tenancy.http))
    await listen()
    expect(await post({ name: 'Acme' })).toMatchObject({ status: 201 })
  })

  test("keeps the headers of the host's middleware", async () => {
    app.use(async (context, next) => {
      await next()
      context.header('x-host', 'mine')
    })
    app.use(honoHandler(tenancy.http))
    await listen()
    expect(await post({ name: 'Acme' })).toMatchObject({ status: 201, headers: { 'x-host': 'mine' } })
  })

  test('responds without a socket', async () => {
    app.use(honoHandler(tenancy.http, { ip: () => '203.0.113.7' }))
    const response = await app.request(`${PREFIX}/who`, { headers: ADMIN })
    expect(await response.json()).toEqual({ ip: '203.0.113.7' })
    host = { origin: '', close: async () => undefined }
  })
})

test.each(Object.entries(hosts))('%s uses the address of the connection, not a client header', async (_name, start) => {
  host = await start(tenancy.http)
  expect(await whoAmI('203.0.113.9')).toMatchObject({ json: { ip: '127.0.0.1' } })
})
