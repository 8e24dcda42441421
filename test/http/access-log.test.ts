/** Access lines and error lines of requests; on every host framework. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { createHttp, type Http } from '../../src/http/app.ts'
import { guard, problemHandler } from '../../src/http/hosts/express.ts'
import { createReceivers } from '../../src/http/receivers.ts'
import { operation } from '../../src/kernel/api/operation.ts'
import { DependencyUnavailable } from '../../src/kernel/base/errors.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { defineSatellite } from '../../src/tenancy/satellite.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { hosts } from './hosts.ts'
import { ADMIN, PREFIX, send, TOKEN } from './served.ts'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const TRACEPARENT = `00-${TRACE_ID}-00f067aa0ba902b7-01`
const SECRET = 'a-secret-of-the-caller'
const FIELDS = [
  'level',
  'time',
  'requestId',
  'traceId',
  'method',
  'route',
  'status',
  'ms',
  'operation',
  'code',
  'principal',
  'tenantId',
  'msg',
]

const failing = defineSatellite({
  name: 'failing',
  summary: 'Operations that fail',
  service: () => ({ error: new Error('a fault') as Error }),
  operations: [
    operation({
      name: 'failing.call',
      method: 'POST',
      path: '/tenants/{id}/failing',
      summary: 'Fail',
      params: z.object({ id: z.string() }),
      reply: z.void(),
      handle: async (service: { error: Error }) => {
        throw service.error
      },
    }),
  ],
  receivers: [{ path: '/received', receive: async () => ({ received: true }) }],
})

type Line = Readonly<Record<string, any>>

let lines: Line[] = []
let made: TestTenancy<[typeof failing]>
let http: Http

beforeAll(async () => {
  const logger = createLogger({ level: 'info', write: (line) => void lines.push(JSON.parse(line)) })
  made = await testTenancy(inject('postgresUrl'), { satellites: [failing], logger })
  await installed(made.tenancy, { id: 'acme', name: 'Acme' })
  http = createHttp(made.tenancy, { adminTokens })
})
afterEach(() => {
  lines = []
})
afterAll(() => made.end())

const adminTokens = [{ name: 'ops', token: TOKEN }]
const access = () => lines.filter(({ msg }) => msg === 'request completed')

describe.each(Object.entries(hosts))('the access log on %s', (_, start) => {
  test('has one line for a request, without its path, query, headers and body', async () => {
    const host = await start(http)
    const headers = { ...ADMIN, traceparent: TRACEPARENT, 'x-request-id': 'r-1', cookie: SECRET }
    const response = await send(host.origin, `PATCH ${PREFIX}/tenants/acme?secret=${SECRET}`, {
      headers,
      body: { name: SECRET },
    })
    expect(response.status).toBe(400) // a PATCH takes no query
    await send(host.origin, `PATCH ${PREFIX}/tenants/acme`, { headers, body: { name: SECRET } })
    await host.close()
    expect(access()).toEqual([
      expect.objectContaining({ status: 400, code: 'E_INVALID_REQUEST' }),
      {
        level: 30,
        time: expect.any(String),
        msg: 'request completed',
        method: 'PATCH',
        route: `${PREFIX}/tenants/{id}`,
        status: 200,
        ms: expect.any(Number),
        operation: 'tenants.update',
        code: null,
        principal: 'ops',
        tenantId: 'acme',
        requestId: 'r-1',
        traceId: TRACE_ID,
      },
    ])
    expect(JSON.stringify(lines)).not.toContain(SECRET)
    expect(JSON.stringify(lines)).not.toContain(TOKEN)
  })
})

describe('the access log', () => {
  const call = (line: string, headers: Record<string, string> = ADMIN) => {
    const [method = '', path] = line.split(' ')
    return http.fetch(new Request(`http://tenantry.test${path}`, { method, headers }))
  }

  test.each([
    [`GET ${PREFIX}/tenants`, { route: `${PREFIX}/tenants`, status: 200, operation: 'tenants.list', tenantId: null }],
    [`HEAD ${PREFIX}/tenants/acme`, { route: `${PREFIX}/tenants/{id}`, status: 200, tenantId: 'acme' }],
    [`GET ${PREFIX}/tenants/ACME%20`, { route: `${PREFIX}/tenants/{id}`, status: 400, tenantId: null }],
    [`DELETE ${PREFIX}/tenants`, { route: `${PREFIX}/tenants`, status: 405, code: 'E_METHOD_NOT_ALLOWED' }],
    [`PUT ${PREFIX}/tenants/acme`, { route: `${PREFIX}/tenants/{id}`, status: 405, operation: null }],
    [`GET ${PREFIX}/unknown/${SECRET}`, { route: null, status: 404, operation: null, principal: 'ops' }],
    [`GET ${PREFIX}/openapi.json`, { route: `${PREFIX}/openapi.json`, status: 200, operation: null }],
    ['GET /livez', { route: '/livez', status: 200, principal: null, traceId: null }],
    ['GET /metrics', { route: '/metrics', status: 200 }],
  ])('has one line for %s', async (line, expected) => {
    await call(line)
    expect(access()).toEqual([expect.objectContaining(expected)])
    expect(Object.keys(access()[0] ?? {}).toSorted()).toEqual(FIELDS.toSorted())
    expect(JSON.stringify(lines)).not.toContain(SECRET)
  })

  test('has a line without a principal for a rejected token', async () => {
    await call(`GET ${PREFIX}/tenants`, { 'x-admin-token': SECRET })
    expect(access()).toEqual([expect.objectContaining({ status: 401, principal: null, code: 'E_UNAUTHORIZED' })])
    expect(JSON.stringify(lines)).not.toContain(SECRET)
  })

  test('has a line for a request to a receiver', async () => {
    const post = new Request('http://tenantry.test/received?key=1', { method: 'POST', body: SECRET })
    await createReceivers(made.tenancy).fetch(post)
    expect(access()).toEqual([expect.objectContaining({ method: 'POST', route: '/received', status: 200 })])
    expect(JSON.stringify(lines)).not.toContain(SECRET)
  })

  test('ignores an invalid traceparent', async () => {
    await call('GET /livez', { traceparent: 'not-a-trace' })
    expect(access()).toEqual([expect.objectContaining({ traceId: null })])
  })

  test('has no lines if it is disabled', async () => {
    const request = (path: string, method = 'GET') =>
      new Request(`http://tenantry.test${path}`, { method, headers: ADMIN })
    const other = await made.open({ role: 'api' })
    const options = { adminTokens, accessLog: false }
    expect((await createHttp(other, options).fetch(request(`${PREFIX}/tenants`))).status).toBe(200)
    expect((await createReceivers(other, options).fetch(request('/received', 'POST'))).status).toBe(200)
    await other.stop()
    expect(lines).toEqual([])
  })
})

describe('the line of an error', () => {
  test.each([
    ['an unexpected error', new Error('a fault'), 500, 'a request failed'],
    ['an unavailable dependency', DependencyUnavailable('The vault is unavailable.'), 503, 'The vault is unavailable.'],
  ])('has the fields of the access line for %s', async (_, error, status, msg) => {
    made.tenancy.failing.error = error
    const headers = { ...ADMIN, traceparent: TRACEPARENT, 'x-request-id': 'r-2' }
    const request = new Request(`http://tenantry.test${PREFIX}/tenants/acme/failing`, { method: 'POST', headers })
    expect((await http.fetch(request)).status).toBe(status)
    expect(lines.map((line) => line.msg)).toEqual([msg, 'request completed'])
    const [failure, completed] = lines.map(({ level: _, time: __, ms: ___, msg: ____, ...fields }) => fields)
    const { err, ...rest } = failure ?? {}
    expect(err).toMatchObject({ message: error.message })
    expect(rest).toEqual(completed)
    expect(rest).toMatchObject({
      method: 'POST',
      route: `${PREFIX}/tenants/{id}/failing`,
      status,
      operation: 'failing.call',
      principal: 'ops',
      tenantId: 'acme',
      requestId: 'r-2',
      traceId: TRACE_ID,
    })
  })

  test('of a route of the host has the fields that are known', async () => {
    const { tenancy } = made
    const by = tenancy.guard({ resolve: fromHeader(), authorize: ({ path }) => path === '/orders' })
    const app = express().use(guard(by))
    app.put('/orders', () => {
      throw DependencyUnavailable('The vault is unavailable.')
    })
    const server = createServer(app.use(problemHandler(tenancy.kernel.log)))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const headers = { 'x-tenant-id': 'acme', 'x-request-id': 'r-3', traceparent: TRACEPARENT }
    expect((await send(`http://127.0.0.1:${port}`, 'PUT /orders', { headers })).status).toBe(503)
    server.close()
    expect(lines).toEqual([
      expect.objectContaining({
        msg: 'The vault is unavailable.',
        method: 'PUT',
        route: null,
        status: 503,
        ms: null,
        operation: null,
        code: 'E_DEPENDENCY_UNAVAILABLE',
        principal: 'host',
        tenantId: 'acme',
        requestId: 'r-3',
        traceId: TRACE_ID,
      }),
    ])
  })
})
