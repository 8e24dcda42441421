/** Guarded routes of a host, on each framework, over real sockets. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import express from 'express'
import { fastify } from 'fastify'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import { currentContext, HOST } from '../../src/kernel/base/context.ts'
import { DependencyUnavailable } from '../../src/kernel/base/errors.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { createGuard, type GuardOptions } from '../../src/tenants/guard/guard.ts'
import {
  firstOf,
  fromCustomDomain,
  fromFunction,
  fromHeader,
  fromPath,
  fromSubdomain,
  type GuardedRequest,
} from '../../src/tenants/guard/strategies.ts'
import { assertAgrees } from '../../src/tenants/handles/agreement.ts'
import { TenantIsSuspended } from '../../src/tenants/tenant/errors.ts'
import { installed } from '../../src/testing/base/tenancy.ts'
import { lazy } from '../support/lazy.ts'
import { type Called, guardedHosts } from './guarded-hosts.ts'
import { type Host, listening } from './hosts.ts'
import { type HttpResponse, type Served, send, served } from './served.ts'

const PROBLEM = 'application/problem+json'
const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

let opened: Served
let host: Host
const reached: string[] = []
const logged: string[] = []
const log = createLogger({ level: 'warn', write: (line) => void logged.push(line) })

beforeAll(async () => {
  opened = await served(inject('postgresUrl'))
  const domains = { acme: ['shop.example'], globex: [], gone: ['gone.example'] }
  for (const [id, names] of Object.entries(domains)) await installed(opened.tenancy, { id, name: id, domains: names })
  await opened.tenancy.tenants.delete('gone')
})
afterAll(() => opened.stop())
beforeEach(() => {
  reached.splice(0)
  logged.splice(0)
})
afterEach(() => host.close())

/** Error of the host's own database. */
const connectionRefused = () => Object.assign(new Error('connect ECONNREFUSED db.mine:5432'), { code: 'ECONNREFUSED' })

const seen = ({ tenant, body }: Called) => {
  const { tenantId, requestId, ip } = currentContext()
  reached.push(tenant?.id ?? 'none')
  return { tenant: tenant?.id, name: tenant?.record.name, tenantId, requestId, hasAddress: ip !== null, body }
}
const routes = {
  'GET /seen': seen,
  'GET /t/acme/orders': seen,
  'POST /echo': seen,
  'GET /health': seen,
  'GET /central/seen': seen,
  'GET /home': seen,
  'GET /slow': async (called: Called) => {
    for (let round = 0; round < 20; round++) await nextTurn()
    return seen(called)
  },
  'GET /central/handle': () => assertAgrees('acme'),
  'GET /who': () => currentContext().actor,
  'GET /lazy': () => lazy(() => ({ tenantId: currentContext().tenantId })),
  'GET /mine': () => {
    throw new Error('mine')
  },
  'GET /mine/away': async () => {
    await nextTurn()
    throw connectionRefused()
  },
  'GET /suspended': async () => {
    await nextTurn()
    throw TenantIsSuspended('The tenant is suspended.')
  },
  'GET /unavailable': () => {
    throw DependencyUnavailable('No database.', { retryAfterSeconds: 9 })
  },
}
const guardOf = (options: Partial<GuardOptions> = {}) =>
  createGuard(opened.tenancy.tenants, {
    resolve: firstOf(fromHeader(), fromSubdomain('app.example.com'), fromPath()),
    authorize: 'anyone',
    ignore: ['/health', '/assets/*'],
    central: ['/central/*'],
    universal: ['/home'],
    ...options,
  })

const one = (header: string | readonly string[] | undefined) => String(header ?? '')

const get = (path: string, headers: Record<string, string | string[]> = {}) =>
  send(host.origin, `GET ${path}`, { headers })
const of = (id: string | string[], more: Record<string, string> = {}) => ({ 'x-tenant-id': id, ...more })

/** Sends bytes exactly as given; node's client would correct some of them. */
async function raw(lines: string[]): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(host.origin)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.end([...lines, 'connection: close', '', ''].join('\r\n'))
  const response = await text(socket)
  return { status: Number(response.split(' ')[1]), body: response.slice(response.indexOf('\r\n\r\n') + 4) }
}

const refused = (response: HttpResponse, status: number, code: string) => {
  expect(response.status).toBe(status)
  expect(response.headers['content-type']).toMatch(PROBLEM)
  expect(response.headers['cache-control']).toBe('no-store')
  expect(response.json).toMatchObject({ status, code, requestId: response.headers['x-request-id'] })
  expect(response.json.requestId).toMatch(/^[\w.-]{1,128}$/)
  expect(reached).toEqual([])
}

describe.each(Object.entries(guardedHosts))('%s', (_, open) => {
  const serve = async (options: Partial<GuardOptions> = {}) => {
    host = await open({ guard: guardOf(options), routes, log })
  }

  test('a route runs as the actor that the guard returns', async () => {
    const actorOf = (request: GuardedRequest) =>
      ({ type: 'user', id: one(request.header('x-user')), name: 'Ann' }) as const
    for (const actor of [actorOf, async (request: GuardedRequest) => actorOf(request)]) {
      await serve({ actor })
      expect((await get('/who', of('acme', { 'x-user': 'ann' }))).json).toEqual({
        type: 'user',
        id: 'ann',
        name: 'Ann',
      })
      await host.close()
    }
    await serve()
    expect((await get('/who', of('acme'))).json).toEqual(HOST)
  })

  test('a second guard admits only the tenant of the first guard', async () => {
    const second = guardOf({
      resolve: fromFunction((request) => one(request.header('x-second'))),
      universal: ['/seen'],
      central: [],
    })
    host = await open({ guard: guardOf(), second, routes, log })
    expect((await get('/seen', of('acme', { 'x-second': 'acme' }))).json).toMatchObject({ tenantId: 'acme' })
    expect((await get('/seen', of('acme'))).json).toMatchObject({ tenantId: 'acme' }) // the second guard identifies no tenant
    reached.splice(0)
    refused(await get('/seen', of('acme', { 'x-second': 'globex' })), 500, 'E_TENANT_MISMATCH')
    refused(await get('/central/seen', { 'x-second': 'globex' }), 500, 'E_TENANT_MISMATCH')
  })

  describe('with default options', () => {
    beforeEach(() => serve())

    test('a route that returns a lazy promise is awaited in its context', async () => {
      expect((await get('/lazy', of('acme'))).json).toEqual({ tenantId: 'acme' })
    })

    test('a route receives its tenant, and runs in its context', async () => {
      const response = await get('/seen?x=1', of('acme', { 'x-request-id': 'mine-1' }))
      expect(response.status).toBe(200)
      expect(response.json).toEqual({
        ...{ tenant: 'acme', name: 'acme', tenantId: 'acme', requestId: 'mine-1', hasAddress: true },
      })
      expect(response.headers['x-request-id']).toBe('mine-1')
      const { headers, json } = await get('/seen', of('acme', { 'x-request-id': 'not an id!' }))
      expect(json.requestId).toMatch(/^[0-9a-f-]{36}$/)
      expect(headers['x-request-id']).toBe(json.requestId)
    })

    test('a route keeps its context after it has read a body', async () => {
      const body = { text: 'x'.repeat(100_000) }
      const { json } = await send(host.origin, 'POST /echo', { headers: of('globex'), body })
      expect(json).toMatchObject({ tenant: 'globex', tenantId: 'globex', body })
    })

    test('concurrent routes keep their contexts', async () => {
      const ids = Array.from({ length: 40 }, (_, n) => (n % 2 ? 'acme' : 'globex'))
      const responses = await Promise.all(ids.map((id) => get('/slow', of(id))))
      expect(responses.map(({ json }) => [json.tenant, json.tenantId])).toEqual(ids.map((id) => [id, id]))
    })

    test.each([
      ['no header', {}],
      ['an empty header', of('')],
      ['two headers', of(['acme', 'globex'])],
      ['the parent domain', of(['acme', 'acme'])],
      ['a list', of('acme,globex')],
      ['the bare domain', { host: 'app.example.com' }],
      ['an IP address', { host: 'a.acme.app.example.com' }],
      ['an address', { host: '[::1]:80' }],
      ['a forwarded host', { host: 'app.example.com', 'x-forwarded-host': 'acme.app.example.com' }],
    ] as [string, Record<string, string | string[]>][])('%s identifies no tenant', async (_, headers) => {
      refused(await get('/seen', headers), 400, 'E_TENANT_NOT_IDENTIFIED')
    })

    test.each(['never', 'gone', 'ACME', '__proto__', 'x'.repeat(10_240), Buffer.from('ñ').toString('latin1')])(
      'the unknown tenant %s is not found',
      async (id) => refused(await get('/seen', of(id)), 404, 'E_TENANT_NOT_FOUND'),
    )

    test('an unknown and a deleted tenant get the same response, byte for byte', async () => {
      const [never, deleted] = await Promise.all(
        ['never', 'gone'].map((id) => get('/seen', of(id, { 'x-request-id': 'r-1' }))),
      )
      const { date: _, ...headers } = never?.headers ?? {}
      expect(deleted?.headers).toMatchObject(headers)
      expect(deleted?.body).toBe(never?.body)
      expect(never?.body).not.toContain('never')
    })

    test('a host with a port, a trailing dot or capitals identifies its tenant', async () => {
      for (const name of ['acme.app.example.com', 'ACME.App.Example.com.:8080']) {
        expect((await get('/seen', { host: name })).json.tenant).toBe('acme')
      }
    })

    test.each([
      ['two hosts', ['host: acme.app.example.com', 'host: globex.app.example.com']],
      ['the same host twice', ['host: acme.app.example.com', 'Host: acme.app.example.com']],
      ['user information', ['host: me@acme.app.example.com']],
      ['a list', ['host: acme.app.example.com, globex.app.example.com']],
      ['bytes beyond ASCII', ['host: acm\u00e9.app.example.com']],
    ])('a request with %s as host is rejected', async (_, hosts) => {
      const { status, body } = await raw(['GET /seen HTTP/1.1', ...hosts])
      expect(status).toBe(400)
      expect(body).not.toContain('"tenant"')
      expect(reached).toEqual([])
    })

    test('a path identifies the tenant', async () => {
      expect((await get('/t/acme/orders')).json).toMatchObject({ tenant: 'acme', tenantId: 'acme' })
      reached.splice(0)
      refused(await get('/t/never/orders'), 404, 'E_TENANT_NOT_FOUND')
      expect((await get('/t/%zz/orders')).status).toBe(400) // Fastify responds before any hook
      expect(reached).toEqual([])
    })

    test.each(['/t/globex/../acme/orders', '/t/globex/%2e%2e/acme/orders', '/t/%2E%2E/t/acme/orders'])(
      '%s reaches no route as globex',
      async (path) => {
        await get(path)
        expect(reached).not.toContain('globex')
      },
    )

    test('an ignored path is not guarded', async () => {
      const { json, headers } = await get('/health', of('never'))
      expect(json).toEqual({ requestId: null, hasAddress: false })
      expect(headers['x-request-id']).toBeUndefined()
    })

    test('a central path has no tenant and rejects tenant handles', async () => {
      expect((await get('/central/seen', of('acme'))).json).toMatchObject({ tenantId: '', hasAddress: true })
      const { status, json, body } = await get('/central/handle', of('acme'))
      expect([status, json.code]).toEqual([500, 'E_TENANT_MISMATCH'])
      expect(body).not.toContain('acme')
      expect(logged.join()).toContain('the context has no tenant (central route), not \\"acme\\"')
    })

    test('a universal path accepts requests with and without a tenant', async () => {
      expect((await get('/home')).json.tenant).toBeUndefined()
      expect((await get('/home', of('acme'))).json.tenant).toBe('acme')
      reached.splice(0)
      refused(await get('/home', of('gone')), 404, 'E_TENANT_NOT_FOUND')
    })

    test.each([
      '/assets/../seen',
      '/assets/%2e%2e/seen',
      '/assets/..%2fseen',
      '/assets//seen',
      '/assets\\..\\seen',
      '//health/../seen',
      '/HEALTH',
      '/health/',
    ])('%s does not bypass the guard', async (path) => {
      const { status } = await raw([`GET ${path} HTTP/1.1`, 'host: x'])
      expect(status).toBe(400)
      expect(reached).toEqual([])
    })

    test('HEAD and OPTIONS are guarded', async () => {
      const head = await send(host.origin, 'HEAD /seen', { headers: of('gone') })
      expect([head.status, head.body]).toEqual([404, ''])
      refused(await send(host.origin, 'OPTIONS /seen'), 400, 'E_TENANT_NOT_IDENTIFIED')
      expect((await send(host.origin, 'HEAD /seen', { headers: of('acme') })).status).toBe(200)
    })

    test('a change of the tenant’s status applies to the next request', async () => {
      const { tenants } = opened.tenancy
      await installed(opened.tenancy, { id: 'moody', name: 'Moody' }).catch(() => tenants.restore('moody'))
      const codes = []
      for (const change of [
        'suspend',
        'activate',
        'delete',
        'restore',
        'enterMaintenance',
        'exitMaintenance',
      ] as const) {
        await tenants[change]('moody')
        const { status, json, headers } = await get('/seen', of('moody'))
        codes.push(status === 200 ? json.tenant : `${json.code} ${headers['retry-after'] ?? ''}`.trim())
      }
      const maintenance = 'E_TENANT_MAINTENANCE 60'
      expect(codes).toEqual(['E_TENANT_SUSPENDED', 'moody', 'E_TENANT_NOT_FOUND', 'moody', maintenance, 'moody'])
      await tenants.delete('moody')
    })

    test('errors of a route reach the host, except errors of Tenantry', async () => {
      const mine = await get('/mine', of('acme'))
      expect([mine.status, mine.body]).toEqual([500, 'host: mine'])
      const down = await get('/mine/away', of('acme'))
      expect([down.status, down.body]).toEqual([500, 'host: connect ECONNREFUSED db.mine:5432'])
      const suspended = await get('/suspended', of('acme', { 'x-request-id': 'r-2' }))
      refused(suspended, 403, 'E_TENANT_SUSPENDED')
      expect(suspended.json.requestId).toBe('r-2')
      expect(logged).toEqual([])
      const unavailable = await get('/unavailable', of('acme'))
      refused(unavailable, 503, 'E_DEPENDENCY_UNAVAILABLE')
      expect(unavailable.headers['retry-after']).toBe('9')
      expect(logged).toHaveLength(1)
    })
  })

  test('a stranger is rejected, and a failing hook admits no request', async () => {
    await serve({
      authorize: async (request, { id }) => {
        await nextTurn()
        if (request.header('x-user') === 'broken') throw new Error('no session store')
        if (request.header('x-user') === 'away') throw connectionRefused()
        return request.header('x-user') === `of ${id}`
      },
    })
    expect((await get('/seen', of('acme', { 'x-user': 'of acme' }))).json).toMatchObject({ tenantId: 'acme' })
    reached.splice(0)
    refused(await get('/seen', of('globex', { 'x-user': 'of acme' })), 403, 'E_TENANT_ACCESS_DENIED')
    refused(await get('/seen', of('gone', { 'x-user': 'of gone' })), 404, 'E_TENANT_NOT_FOUND')
    const failed = await get('/seen', of('acme', { 'x-user': 'broken' }))
    expect([failed.status, failed.body]).toEqual([500, 'host: no session store'])
    const down = await get('/seen', of('acme', { 'x-user': 'away' }))
    expect([down.status, down.body]).toEqual([500, 'host: connect ECONNREFUSED db.mine:5432'])
    expect(reached).toEqual([])
  })

  test('a custom domain identifies its tenant', async () => {
    await serve({ resolve: fromCustomDomain({ ignore: ['app.example.com'] }) })
    expect((await get('/seen', { host: 'Shop.Example:8080' })).json.tenant).toBe('acme')
    reached.splice(0)
    refused(await get('/seen', { host: 'gone.example' }), 404, 'E_TENANT_NOT_FOUND')
    refused(await get('/seen', { host: 'never.example' }), 404, 'E_TENANT_NOT_FOUND')
    refused(await get('/seen', { host: 'app.example.com' }), 400, 'E_TENANT_NOT_IDENTIFIED')
    refused(
      await get('/seen', { host: 'app.example.com', 'x-forwarded-host': 'shop.example' }),
      400,
      'E_TENANT_NOT_IDENTIFIED',
    )
  })
})

describe('specific to one framework', () => {
  const forwarded = { host: 'proxy.internal', 'x-forwarded-host': 'acme.app.example.com' }

  test('Express: the guard reads the complete path below a mount point', async () => {
    const app = express()
    app.use('/t', onExpress.guard(guardOf()))
    app.get(
      '/t/:id/orders',
      (request, response) => void response.json(seen({ tenant: request.tenant, body: undefined })),
    )
    host = await listening(createServer(app))
    expect((await get('/t/acme/orders')).json).toMatchObject({ tenant: 'acme', tenantId: 'acme' })
  })

  test('Express: the guard reads the host from a trusted proxy', async () => {
    const app = express()
    app.set('trust proxy', 'loopback')
    app.use(onExpress.guard(guardOf()))
    app.get('/seen', (request, response) => void response.json(seen({ tenant: request.tenant, body: undefined })))
    host = await listening(createServer(app))
    expect((await get('/seen', forwarded)).json.tenant).toBe('acme')
  })

  test('Fastify: the guard reads the host from a trusted proxy, and does not guard sibling instances', async () => {
    const app = fastify({ trustProxy: 'loopback' })
    await app.register(async (mine) => {
      await mine.register(onFastify.guard(guardOf()))
      mine.get('/seen', async ({ tenant, body }) => seen({ tenant, body }))
      await mine.register(async (below) => void below.get('/below', async () => 'below'))
    })
    app.get('/beside', async () => 'beside')
    host = { origin: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    expect((await get('/seen', forwarded)).json.tenant).toBe('acme')
    expect((await get('/below')).status).toBe(400)
    expect((await get('/below', of('acme'))).body).toBe('below')
    expect((await get('/beside')).body).toBe('beside')
  })
})
