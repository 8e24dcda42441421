/** Traffic that guards report for admitted requests: on each framework, over real sockets, exact to the byte. */
import { once } from 'node:events'
import { Agent, createServer, request, type Server, type ServerResponse } from 'node:http'
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { StreamableFile } from '@nestjs/common'
import express, { type Response as ExpressResponse, type NextFunction, type Request } from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import { stream } from 'hono/streaming'
import Koa from 'koa'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onKoa from '../../src/http/hosts/koa.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import * as onWeb from '../../src/http/hosts/web.ts'
import type { Traffic } from '../../src/kernel/api/traffic.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { metrics } from '../../src/satellites/metrics/index.ts'
import { createGuard, type Guard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Host, listening, webServer } from './hosts.ts'
import { type NestCalled, type NestRoute, type NestSetup, nestOnExpress, nestOnFastify } from './nest-application.ts'

const TEXT = 'schöne Grüße '.repeat(1_000)
const PIECES = ['first, ', 'zweites Stück äöü, ', 'x'.repeat(100_000), 'the last']

/** Each host has the same routes: /text, /stream, /empty, /fail, /hang, /breaks, and POST /text. */
const hosts: Readonly<Record<string, (guard: Guard) => Promise<Host>>> = {
  node(guard) {
    const route = async (path: string | undefined, outgoing: ServerResponse): Promise<unknown> => {
      if (path === '/text') return outgoing.writeHead(200).end(TEXT)
      if (path === '/stream') return Readable.from(PIECES).pipe(outgoing)
      if (path === '/empty') return outgoing.writeHead(204).end()
      if (path === '/hang') return undefined
      if (path !== '/breaks') throw new Error('mine')
      outgoing.write(PIECES[0])
      return outgoing.write(PIECES[1], () => outgoing.destroy())
    }
    const listen = onNode.guard(guard, (incoming, outgoing) => route(incoming.url, outgoing))
    return listening(
      createServer((incoming, outgoing) => {
        listen(incoming, outgoing).catch((error: Error) => outgoing.writeHead(500).end(error.message))
      }),
    )
  },
  express(guard) {
    const app = express()
    app.use(onExpress.guard(guard))
    app.all('/text', (_, response) => void response.send(TEXT))
    app.get('/stream', (_, response) => void Readable.from(PIECES).pipe(response))
    app.get('/empty', (_, response) => void response.sendStatus(204))
    app.get('/hang', () => undefined)
    app.get('/breaks', (_, response) => {
      response.write(PIECES[0])
      response.write(PIECES[1], () => response.destroy())
    })
    app.use(() => {
      throw new Error('mine')
    })
    app.use((error: Error, _request: Request, response: ExpressResponse, _next: NextFunction) => {
      response.status(500).send(error.message)
    })
    return listening(createServer(app))
  },
  async fastify(guard) {
    const app = fastify({ forceCloseConnections: true })
    await app.register(onFastify.guard(guard))
    app.setErrorHandler((error: Error, _, reply) => reply.code(500).send(error.message))
    app.all('/text', async () => TEXT)
    app.get('/stream', async (_, reply) => reply.send(Readable.from(PIECES)))
    app.get('/empty', async (_, reply) => reply.code(204).send())
    app.get('/hang', () => new Promise(() => undefined))
    app.get('/breaks', (_, reply) => {
      reply.hijack()
      reply.raw.write(PIECES[0])
      reply.raw.write(PIECES[1], () => reply.raw.destroy())
    })
    app.get('/fail', async () => {
      throw new Error('mine')
    })
    const origin = await app.listen({ port: 0, host: '127.0.0.1' })
    return { origin, close: () => app.close() }
  },
  hono(guard) {
    const app = new Hono<onHono.GuardedEnv>()
    app.use(onHono.guard(guard))
    app.on(['GET', 'POST'], '/text', (context) => context.text(TEXT))
    app.get('/stream', (context) =>
      stream(context, async (to) => {
        for (const piece of PIECES) await to.write(piece)
      }),
    )
    app.get('/empty', (context) => context.body(null, 204))
    app.get('/hang', () => new Promise<Response>(() => undefined))
    app.get('/breaks', ({ env }) => {
      const { outgoing } = env as unknown as HttpBindings
      outgoing.write(PIECES[0])
      outgoing.write(PIECES[1], () => outgoing.destroy())
      return RESPONSE_ALREADY_SENT
    })
    app.get('/fail', () => {
      throw new Error('mine')
    })
    app.onError((error, context) => context.text(error.message, 500))
    return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
  },
  koa(guard) {
    const app = new Koa<onKoa.GuardedState>()
    app.silent = true
    app.use(onKoa.guard(guard))
    app.use(async (context) => {
      const { path, res } = context
      if (path === '/text') context.body = TEXT
      else if (path === '/stream') context.body = Readable.from(PIECES)
      else if (path === '/empty') context.status = 204
      else if (path === '/hang') await new Promise(() => undefined)
      else if (path === '/breaks') {
        context.respond = false
        res.statusCode = 200
        res.write(PIECES[0])
        res.write(PIECES[1], () => res.destroy())
      } else throw new Error('mine')
    })
    return listening(createServer(app.callback()))
  },
  web(guard) {
    const pieces = async function* () {
      for (const piece of PIECES) yield Buffer.from(piece)
    }
    const broken = async function* () {
      yield* PIECES.slice(0, 2).map((piece) => Buffer.from(piece))
      await nextTurn() // the pieces have been sent
      throw new Error('broken')
    }
    const handle = onWeb.guardFetch(guard, (asked): globalThis.Response | Promise<globalThis.Response> => {
      const path = new URL(asked.url).pathname
      if (path === '/text') return new Response(TEXT)
      if (path === '/stream') return new Response(ReadableStream.from(pieces()))
      if (path === '/empty') return new Response(null, { status: 204 })
      if (path === '/hang') return new Promise(() => undefined)
      if (path === '/breaks') return new Response(ReadableStream.from(broken()))
      throw new Error('mine')
    })
    return webServer((asked) => handle(asked).catch((error) => new Response(error.message, { status: 500 })))
  },
  'nestjs with express': (guard) => nestOnExpress(nestSetup(guard)),
  'nestjs with fastify': (guard) => nestOnFastify(nestSetup(guard)),
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

const nestSetup = (guard: Guard): NestSetup => {
  const route = (path: string, handle: NestRoute['handle'], responds = false) => ({
    method: 'ALL',
    path,
    responds,
    handle: ({ response, ...called }: NestCalled) => {
      response.status(200)
      return handle({ response, ...called })
    },
  })
  return {
    module: { tenancy: { kernel: { log: createLogger({ level: 'silent' }) } }, guard },
    routes: [
      route('/text', () => TEXT),
      route('/stream', () => new StreamableFile(Readable.from(PIECES.map((piece) => Buffer.from(piece))))),
      route('/empty', ({ response }) => void response.status(204).send(), true),
      route('/hang', () => new Promise(() => undefined)),
      route(
        '/breaks',
        ({ response }) => {
          response.hijack?.()
          const outgoing: ServerResponse = response.raw ?? response
          outgoing.statusCode = 200
          outgoing.write(PIECES[0])
          outgoing.write(PIECES[1], () => outgoing.destroy())
        },
        true,
      ),
      route('/fail', () => {
        throw new Error('mine')
      }),
    ],
  }
}

let opened: TestTenancy<[ReturnType<typeof metrics>]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { satellites: [metrics()] })
  for (const id of ['acme', 'globex', 'closed']) await installed(opened.tenancy, { id, name: id })
  await opened.tenancy.tenants.suspend('closed')
})
afterAll(() => opened.end())

const reported: { tenantId: string; status: number; bytes: number }[] = []
const traffic: Traffic = {
  requestEnded: (tenantId, status, bytes) => void reported.push({ tenantId, status, bytes }),
}
const guardOf = (reportTo: Traffic = traffic) =>
  createGuard(
    opened.tenancy.tenants,
    { resolve: fromHeader(), authorize: 'anyone', universal: ['/none'], ignore: ['/ignored'] },
    reportTo,
  )
const agent = new Agent({ keepAlive: true, maxSockets: 1 })
afterAll(() => agent.destroy())

interface EndedRequest {
  readonly status: number
  readonly body: Buffer
}

async function call(origin: string, line: string, tenant: string | null = 'acme'): Promise<EndedRequest> {
  const [method, path = ''] = line.split(' ')
  const headers = { 'content-type': 'text/plain', ...(tenant === null ? {} : { 'x-tenant-id': tenant }) }
  const asked = request(`${origin}${path}`, { method, agent, headers })
  asked.end(method === 'POST' ? 'a body that is not counted' : undefined)
  const [response] = await once(asked, 'response')
  return { status: response.statusCode, body: await buffer(response) }
}

const until = (count: number) => eventually(() => expect(reported).toHaveLength(count))

describe.each(Object.entries(hosts))('%s', (name, open) => {
  let host: Host
  beforeEach(async () => {
    reported.length = 0
    host = await open(guardOf())
  })
  afterEach(() => host.close())

  test.each(['GET /text', 'POST /text', 'GET /stream', 'GET /empty', 'HEAD /text', 'GET /fail'])(
    '%s is reported once, with the bytes that the client received',
    async (line) => {
      const { status, body } = await call(host.origin, line)
      await until(1)
      // A handler of the web standard does not see the response to its error.
      const isUnseen = name === 'web' && line === 'GET /fail'
      expect(reported).toEqual([{ tenantId: 'acme', status, bytes: isUnseen ? 0 : body.length }])
      const expected = { '/text': Buffer.byteLength(TEXT), '/stream': Buffer.byteLength(PIECES.join('')), '/empty': 0 }
      const [method, path = ''] = line.split(' ')
      if (path in expected && method !== 'HEAD') expect(body.length).toBe(expected[path as keyof typeof expected])
      if (path === '/fail') expect(status).toBe(500)
    },
  )

  test('requests on one connection are reported for their own tenants', async () => {
    const tenants = ['acme', 'globex', 'acme', 'acme', 'globex']
    for (const tenant of tenants) await call(host.origin, 'GET /stream', tenant)
    await until(tenants.length)
    expect(reported.map(({ tenantId }) => tenantId)).toEqual(tenants)
    expect(new Set(reported.map(({ bytes }) => bytes))).toEqual(new Set([Buffer.byteLength(PIECES.join(''))]))
  })

  test('a response that breaks off is reported with the bytes written so far', async () => {
    await expect(call(host.origin, 'GET /breaks')).rejects.toThrow()
    await until(1)
    expect(reported).toEqual([{ tenantId: 'acme', status: 200, bytes: Buffer.byteLength(PIECES.slice(0, 2).join('')) }])
  })

  test('a client that disconnects before the response is reported', async () => {
    const asked = request(`${host.origin}/hang`, { headers: { 'x-tenant-id': 'acme' } }).on('error', () => undefined)
    asked.end()
    const [socket] = await once(asked, 'socket')
    await once(asked, 'finish')
    const answered = call(host.origin, 'GET /empty', 'globex') // the other request has reached its route
    await answered
    socket.destroy()
    await until(2)
    expect(reported).toContainEqual({ tenantId: 'acme', status: 0, bytes: 0 })
  })

  test('rejected requests and requests without a tenant are not reported', async () => {
    for (const tenant of ['closed', 'unknown', null]) await call(host.origin, 'GET /text', tenant)
    for (const path of ['/none', '/ignored']) {
      expect((await call(host.origin, `GET ${path}`, null)).status).not.toBe(400)
    }
    await call(host.origin, 'GET /empty', 'globex')
    await until(1)
    expect(reported).toMatchObject([{ tenantId: 'globex', status: 204 }])
  })
})

describe('a response', () => {
  let server: Host
  const serve = async (...args: Parameters<typeof onNode.guard>) => {
    const listen = onNode.guard(...args)
    server = await listening(createServer((incoming, outgoing) => void listen(incoming, outgoing)))
  }
  beforeEach(() => {
    reported.length = 0
  })
  afterEach(() => server?.close())

  test('a response in another encoding is reported with its encoded bytes', async () => {
    await serve(guardOf(), (_, outgoing) => {
      outgoing.write('äöü', 'latin1')
      outgoing.write('616263', 'hex', () => outgoing.end(Buffer.from('€'), () => undefined))
    })
    expect((await call(server.origin, 'GET /')).body).toHaveLength(9)
    await until(1)
    expect(reported[0]?.bytes).toBe(9)
  })

  test('a response that ends with only a callback, or twice, is reported once', async () => {
    await serve(guardOf(), (_, outgoing) => {
      outgoing.write('abc')
      outgoing.end(() => outgoing.end())
    })
    expect((await call(server.origin, 'GET /')).body).toHaveLength(3)
    await until(1)
    expect(reported).toEqual([{ tenantId: 'acme', status: 200, bytes: 3 }])
  })

  test('a response that middleware after the guard compresses is reported with the sent bytes', async () => {
    const app = express()
    app.use(onExpress.guard(guardOf()), (_, response, next) => {
      const end = response.end
      response.end = ((chunk: string) => {
        const packed = gzipSync(chunk)
        response.setHeader('content-length', packed.length)
        return end.call(response, packed, 'utf8')
      }) as typeof response.end
      next()
    })
    app.get('/', (_, response) => void response.send(TEXT))
    server = await listening(createServer(app))
    const { body } = await call(server.origin, 'GET /')
    expect(body.length).toBeLessThan(TEXT.length / 10)
    await until(1)
    expect(reported[0]?.bytes).toBe(body.length)
  })

  test('a response behind two guards is reported once for each tenancy', async () => {
    const other: typeof reported = []
    const toOther: Traffic = { requestEnded: (tenantId, status, bytes) => void other.push({ tenantId, status, bytes }) }
    const app = express()
    app.use([guardOf(), guardOf(toOther), guardOf(), guardOf(toOther)].map((one) => onExpress.guard(one)))
    app.get('/', (_, response) => void response.send('abc'))
    server = await listening(createServer(app))
    await call(server.origin, 'GET /')
    await until(1)
    await call(server.origin, 'GET /')
    await until(2)
    expect(reported).toEqual(Array(2).fill({ tenantId: 'acme', status: 200, bytes: 3 }))
    expect(other).toEqual(reported)
  })

  test('a response over HTTP/2 is reported', async () => {
    const listen = onNode.guard(guardOf(), (incoming, outgoing) => {
      if (incoming.url === '/end') outgoing.end('abc')
      else outgoing.write('ab', () => outgoing.end('cde'))
    })
    const http2 = createHttp2Server((incoming, outgoing) => void listen(incoming as never, outgoing as never))
    await once(http2.listen(0, '127.0.0.1'), 'listening')
    const client = connectHttp2(`http://127.0.0.1:${(http2.address() as AddressInfo).port}`)
    for (const path of ['/end', '/both']) {
      const asked = client.request({ ':path': path, 'x-tenant-id': 'acme' })
      await buffer(asked)
    }
    await until(2)
    expect(reported.map(({ bytes }) => bytes)).toEqual([3, 5])
    client.close()
    http2.close()
    await once(http2, 'close')
  })
})

test('the guard of a tenancy with metrics counts requests; a guard without metrics does not', async () => {
  const { tenancy } = opened
  const listen = onNode.guard(tenancy.guard({ resolve: fromHeader(), authorize: 'anyone' }), (incoming, outgoing) => {
    outgoing.statusCode = Number(incoming.url?.slice(1))
    outgoing.end('four')
  })
  const server = await listening(createServer((incoming, outgoing) => void listen(incoming, outgoing)))
  for (const status of [200, 404, 500, 503]) await call(server.origin, `GET /${status}`, 'globex')
  await eventually(async () =>
    expect(
      Object.fromEntries((await tenancy.metrics.list('globex')).data.map(({ key, value }) => [key, value])),
    ).toEqual({ requests: 4, errors: 2, bytes: 16 }),
  )
  await server.close()
  const without = await testTenancy(inject('postgresUrl'))
  expect(without.tenancy.guard({ resolve: fromHeader(), authorize: 'anyone' }).traffic).toBeUndefined()
  await without.end()
})
