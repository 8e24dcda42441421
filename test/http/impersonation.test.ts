/** Acting in the name of a tenant's user at a host's own routes, on each framework, with the audit log, over real sockets. */
import { createServer } from 'node:http'
import express from 'express'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createHttp, type Http } from '../../src/http/app.ts'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import { recordChange } from '../../src/kernel/changes.ts'
import { currentContext } from '../../src/kernel/context.ts'
import { createLogger } from '../../src/kernel/logger.ts'
import { type AuditEntry, auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { impersonation } from '../../src/satellites/impersonation/index.ts'
import type { Tenancy } from '../../src/tenancy.ts'
import { createGuard } from '../../src/tenants/guard.ts'
import { fromHeader } from '../../src/tenants/resolution.ts'
import { type FakeClock, fakeClock } from '../../src/testing/clock.ts'
import { eventually, type TestTenancy, testTenancy } from '../../src/testing/tenancy.ts'
import { type Host, listening } from './hosts.ts'
import { type Called, impersonationHosts } from './impersonation-hosts.ts'
import { type Answer, PREFIX, send, TOKEN } from './served.ts'

type Satellites = [ReturnType<typeof auditLogs>, ReturnType<typeof impersonation>]

const HEADER = 'x-impersonation-token'
const REASON = 'Ticket 4711: exports fail'
const PROBLEM = 'application/problem+json'
const hosts = Object.entries(impersonationHosts)

let made: TestTenancy<Satellites>
let tenancy: Tenancy<Satellites>
/** On the same database, without an audit log. */
let unaudited: Tenancy<Satellites>
let http: Http
let clock: FakeClock
let host: Host
let id: string
let count = 0
const lines: string[] = []
const reached: Called[] = []

beforeAll(async () => {
  clock = fakeClock()
  made = await testTenancy(inject('postgresUrl'), {
    clock,
    role: 'api',
    satellites: [auditLogs(), impersonation()],
    logger: createLogger({ level: 'trace', write: (line) => void lines.push(line) }),
  })
  tenancy = made.tenancy
  unaudited = await made.open({ satellites: [impersonation()] as never })
  http = createHttp(tenancy, { adminTokens: [{ name: 'alice', token: TOKEN }] })
})
afterAll(() => made?.end())
beforeEach(async () => {
  count += 1
  id = await customer(`customer-${count}`)
  reached.splice(0)
  lines.splice(0)
})
afterEach(() => host?.close())

/** An active tenant, installed by this process: it has no workers. */
async function customer(id: string): Promise<string> {
  await tenancy.tenants.create({ id, name: 'Customer' })
  await tenancy.tenants.installation.install(id, { isLast: true })
  return id
}
const admin = async (method: string, path: string, body?: object) => {
  const request = new Request(`http://admin.test${PREFIX}${path}`, {
    method,
    headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  })
  const response = await http.fetch(request, { ip: '192.0.2.7' })
  const text = await response.text()
  return { status: response.status, json: text ? JSON.parse(text) : undefined }
}
const begin = async (
  tenantId = id,
  more: object = {},
): Promise<{ token: string; sessionId: string; expiresAt: string }> => {
  const { status, json } = await admin('POST', `/tenants/${tenantId}/impersonations`, {
    ...{ userId: 'user-42', reason: REASON },
    ...more,
  })
  expect(status).toBe(201)
  return json
}
const guardOf = ({ tenants }: Pick<Tenancy, 'tenants'>) =>
  createGuard(tenants, { resolve: fromHeader(), central: ['/central/*'], ignore: ['/assets/*'], universal: ['/home'] })

/** Changes something, as a route does that calls Tenantry, and answers what it was called with. */
const route = async (called: Called) => {
  reached.push(called)
  const { actor, requestId, tenantId } = currentContext()
  if (called.body === 'change') {
    const change = { action: 'orders.cancel', tenantId: called.tenantId ?? null, target: 'order:1' }
    await recordChange(tenancy.kernel.events, change)
  }
  return { impersonation: called.impersonation ?? null, actor, requestId, tenantId: tenantId ?? null }
}

const call = (line: string, headers: Record<string, string | string[]> = {}, body?: string) =>
  send(host.origin, line, { headers: { 'x-tenant-id': id, 'content-type': 'text/plain', ...headers }, body })
const codeOf = ({ status, json }: Answer) => [status, json?.code]
const entriesOf = async (action: string, tenantId = id): Promise<AuditEntry[]> =>
  (await tenancy.auditLogs.list(tenantId, { action, limit: 200 })).data

async function exportOf(tenantId: string): Promise<AuditEntry[]> {
  const lines = (await Array.fromAsync(await tenancy.auditLogs.export(tenantId, 'ndjson'))).join('').trim().split('\n')
  return lines.map((line) => JSON.parse(line))
}

describe.each(hosts)('%s', (_, open) => {
  const serve = async (options = {}, by: Tenancy<Satellites> = tenancy) => {
    host = await open({ guard: guardOf(by), impersonation: by.impersonation, options, route })
  }
  const refused = (answer: Answer, status = 401, code = 'E_IMPERSONATION_INVALID') => {
    expect(codeOf(answer)).toEqual([status, code])
    expect(answer.headers['content-type']).toMatch(PROBLEM)
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(answer.json.requestId).toBe(answer.headers['x-request-id'])
    expect(reached).toEqual([])
  }

  test('without a token a request is the host’s own, and nothing is recorded', async () => {
    await serve()
    const { status, json } = await call('POST /orders', {}, 'change')
    expect(status).toBe(200)
    expect(json).toMatchObject({ impersonation: null, actor: { type: 'host' }, tenantId: id })
    expect(await entriesOf('impersonations.request')).toEqual([])
    expect(await entriesOf('orders.cancel')).toMatchObject([{ actor: { type: 'host', id: 'host', name: 'host' } }])
  })

  test('with one it is in the name of the user, stands in the log before, and so does what it changes', async () => {
    await serve()
    const { token, sessionId, expiresAt } = await begin()
    const headers = { [HEADER]: token, 'x-request-id': 'r-1' }
    const { status, json, headers: answered } = await call('POST /orders/7/cancel?reset=secret', headers, 'change')
    expect(status).toBe(200)
    const alice = { type: 'admin', id: 'alice', name: 'alice' }
    const both = { type: 'impersonator', id: 'alice', name: 'alice as user-42' }
    expect(json).toEqual({
      impersonation: { sessionId, userId: 'user-42', actor: alice, reason: REASON, expiresAt },
      actor: both,
      requestId: 'r-1',
      tenantId: id,
    })
    expect(answered['x-request-id']).toBe('r-1')
    const inNameOf = { sessionId, userId: 'user-42' }
    expect(await entriesOf('impersonations.request')).toEqual([
      expect.objectContaining({
        tenantId: id,
        actor: both,
        target: 'user:user-42',
        before: null,
        after: { method: 'POST', path: '/orders/7/cancel', reason: REASON, impersonation: inNameOf },
        requestId: 'r-1',
        ip: expect.stringContaining('127.0.0.1'),
        outcome: 'success',
      }),
    ])
    expect(await entriesOf('orders.cancel')).toMatchObject([
      { actor: both, before: null, after: { impersonation: inNameOf }, requestId: 'r-1' },
    ])
    expect(await exportOf(id)).toContainEqual(
      expect.objectContaining({ action: 'orders.cancel', after: { impersonation: inNameOf } }),
    )
    expect((await tenancy.auditLogs.verify({ tenantId: id })).broken).toEqual([])
    expect((await tenancy.auditLogs.list(id, { actor: 'alice' })).data.map(({ action }) => action).toSorted()).toEqual([
      ...['impersonations.request', 'impersonations.start', 'orders.cancel'],
    ])
    expect((await call('POST /orders', {}, 'change')).json).toMatchObject({ impersonation: null })
  })

  test('a token is refused at another tenant, when it has expired, and when it was ended between two requests', async () => {
    await serve()
    const other = await customer(`other-${id}`)
    const { token: foreign } = await begin(other)
    refused(await call('GET /orders', { [HEADER]: foreign }))
    const { token, sessionId } = await begin()
    expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
    expect((await admin('DELETE', `/impersonations/${sessionId}`)).status).toBe(204)
    reached.splice(0)
    refused(await call('GET /orders', { [HEADER]: token }))
    const { token: short } = await begin(id, { durationSeconds: 60 })
    clock.advance(61_000)
    refused(await call('GET /orders', { [HEADER]: short }))
    expect(await entriesOf('impersonations.request')).toHaveLength(1)
  })

  test('what is no token, or more than one, lets nobody in', async () => {
    await serve({ cookie: 'imp' })
    const [{ token }, { token: another }] = [await begin(), await begin()]
    for (const headers of [
      { [HEADER]: '' },
      { [HEADER]: 'imp_' },
      { [HEADER]: `imp_${'A'.repeat(43)}` },
      { [HEADER]: 'x'.repeat(8_000) },
      { [HEADER]: [token, token] },
      { [HEADER]: [token, another] },
      { [HEADER]: `${token},` },
      { cookie: 'imp=' },
      { cookie: `imp="${token}"` },
      { cookie: `imp=${token}; imp=${token}` },
      { cookie: `imp=${token}; imp=${another}` },
      { [HEADER]: token, cookie: `imp=${another}` },
      { [HEADER]: '', cookie: `imp=${token}` },
    ] as Record<string, string | string[]>[]) {
      refused(await call('GET /orders', headers))
    }
    expect(await entriesOf('impersonations.request')).toEqual([])
  })

  test('a token may be in a cookie, or in a header of another name', async () => {
    await serve({ header: 'X-Act-As', cookie: 'imp' })
    const { token } = await begin()
    for (const [name, value] of [
      ['cookie', `a=b; imp=${token}; c=d`],
      ['x-act-as', token],
    ] as const) {
      expect((await call('GET /orders', { [name]: value })).json.impersonation.userId).toBe('user-42')
    }
    const { json } = await call('GET /orders', { [HEADER]: token, cookie: `ximp=${token}; imp2=${token}` })
    expect(json.impersonation).toBeNull()
  })

  test('where there is no tenant nobody is anybody’s user', async () => {
    await serve({ cookie: 'imp' })
    const { token } = await begin()
    for (const path of ['/assets/logo.svg', '/central/tenants', '/home']) {
      const named = path === '/home' ? {} : { 'x-tenant-id': id }
      const { status, json } = await send(host.origin, `GET ${path}`, { headers: { ...named, cookie: `imp=${token}` } })
      expect([status, json.impersonation, json.actor.type]).toEqual([200, null, 'host'])
    }
    expect((await call('GET /home', { cookie: `imp=${token}` })).json.impersonation.userId).toBe('user-42')
  })

  test('a token that comes before the guard lets nobody in, and is told whoever has put it there', async () => {
    const guard = createGuard(tenancy.tenants, {
      resolve: fromHeader(),
      authorize: async (request, { id }) => {
        const token = request.header(HEADER)
        return typeof token === 'string' && (await tenancy.impersonation.verify(id, token)).userId === 'user-42'
      },
      ignore: ['/assets/*'],
    })
    host = await open({ guard, impersonation: tenancy.impersonation, isReversed: true, route })
    const { token } = await begin()
    for (const path of ['/orders', '/assets/logo.svg']) {
      const answer = await call(`GET ${path}`, { [HEADER]: token })
      expect(codeOf(answer)).toEqual([400, 'E_TENANT_NOT_IDENTIFIED'])
      expect(answer.json.detail).toContain('guard() comes before impersonation()')
    }
    expect(reached).toEqual([])
    expect(await entriesOf('impersonations.request')).toEqual([])
    expect((await call('GET /assets/logo.svg')).status).toBe(200)
  })

  test('the guard and the middleware let it in by one entry, of what is not the middleware’s too', async () => {
    const entrance = tenancy.impersonation.entrance()
    const guard = createGuard(tenancy.tenants, {
      resolve: fromHeader(),
      authorize: async (request, { id }) => {
        const token = request.header(HEADER)
        return typeof token === 'string' && (await entrance.enter(id, token, request)).userId === 'user-42'
      },
    })
    const { token, sessionId } = await begin()
    const { token: another } = await begin()
    host = await open({ guard, impersonation: tenancy.impersonation, route })
    expect((await call('GET /orders', { [HEADER]: token })).json.impersonation.sessionId).toBe(sessionId)
    expect(await entriesOf('impersonations.request')).toHaveLength(1)
    expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
    expect((await call('GET /orders', { [HEADER]: another })).status).toBe(200)
    expect(await entriesOf('impersonations.request')).toHaveLength(3)
    await host.close()
    host = await open({ guard, impersonation: tenancy.impersonation, options: { header: 'x-another' }, route })
    expect((await call('GET /orders', { [HEADER]: token })).json.impersonation).toBeNull()
    expect(await entriesOf('impersonations.request')).toHaveLength(4)
  })

  test('what the guard refuses is refused with a token too, and a deleted tenant’s token is over', async () => {
    await serve()
    const { token } = await begin()
    await tenancy.tenants.suspend(id)
    refused(await call('GET /orders', { [HEADER]: token }), 403, 'E_TENANT_SUSPENDED')
    await tenancy.tenants.activate(id)
    expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
    reached.splice(0)
    await tenancy.tenants.delete(id)
    refused(await call('GET /orders', { [HEADER]: token }), 404, 'E_TENANT_NOT_FOUND')
    await tenancy.tenants.restore(id)
    refused(await call('GET /orders', { [HEADER]: token }))
    expect(await entriesOf('impersonations.request')).toHaveLength(1)
  })

  test('of many at once each stands in the log, and runs in its own name', async () => {
    await serve()
    const tokens = [await begin(), await begin(id, { userId: 'user-7' })].map(({ token }) => token)
    const wanted = Array.from({ length: 30 }, (_, n) => ({ path: `/orders/${n}`, token: tokens[n % 3] }))
    const answers = await Promise.all(
      wanted.map(({ path, token }) => call(`POST ${path}`, token === undefined ? {} : { [HEADER]: token }, 'change')),
    )
    expect(answers.map(({ json }) => json.impersonation?.userId)).toEqual(
      wanted.map(({ token }) => (token === undefined ? undefined : token === tokens[0] ? 'user-42' : 'user-7')),
    )
    const paths = (await entriesOf('impersonations.request')).map(({ after }) => String(after?.path))
    expect(paths.toSorted()).toEqual(wanted.flatMap(({ path, token }) => (token ? [path] : [])).toSorted())
    const actors = (await entriesOf('orders.cancel')).map(({ actor }) => actor.name).toSorted()
    expect(actors).toEqual(wanted.map((_, n) => ['alice as user-42', 'alice as user-7', 'host'][n % 3]).toSorted())
  })

  test('what cannot be recorded is not run', async () => {
    await serve()
    const { token } = await begin()
    const table = 'alter table multitenancy.audit_entries'
    await tenancy.kernel.database.sql(
      `${table} add constraint no_more check (action <> 'impersonations.request' or tenant_id <> '${id}') not valid`,
    )
    try {
      const answer = await call('GET /orders', { [HEADER]: token })
      refused(answer, 503, 'E_DEPENDENCY_UNAVAILABLE')
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
      expect(answer.body).not.toContain('no_more')
      expect(lines.join('')).toContain('no_more')
      expect((await call('GET /orders')).status).toBe(200)
    } finally {
      await tenancy.kernel.database.sql(`${table} drop constraint no_more`)
    }
    expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
  })

  test('a token stands in no line of the log, no entry and no list', async () => {
    await serve({ cookie: 'imp' })
    const { token, sessionId } = await begin()
    await call(`GET /x/${token}?token=${token}`, { [HEADER]: token }, undefined)
    await call('GET /orders', { cookie: `imp=${token}; imp=x` })
    await admin('DELETE', `/impersonations/${sessionId}`)
    await call('GET /orders', { [HEADER]: token })
    const list = await admin('GET', `/tenants/${id}/impersonations`)
    expect(list.json.data).toMatchObject([{ sessionId, endedAt: expect.any(String) }])
    const { rows } = await tenancy.kernel.database.sql(
      `select string_agg(e::text, E'\\n') as text from multitenancy.audit_entries e where tenant_id = $1`,
      [id],
    )
    expect(rows[0].text).toContain('/x/')
    for (const text of [lines.join('\n'), JSON.stringify(list.json), rows[0].text]) expect(text).not.toContain(token)
  })

  test('what the route throws is the host’s, once the request stands in the log', async () => {
    const { token } = await begin()
    host = await open({
      guard: guardOf(tenancy),
      impersonation: tenancy.impersonation,
      route: () => {
        throw new Error('mine')
      },
    })
    const failed = await call('GET /orders', { [HEADER]: token })
    expect([failed.status, failed.body]).toEqual([500, 'host: mine'])
    expect(await entriesOf('impersonations.request')).toHaveLength(1)
  })

  test('without an audit log it is refused when the routes are made', async () => {
    const request = { guard: guardOf(unaudited), impersonation: unaudited.impersonation, route }
    await expect(async () => open(request)).rejects.toThrow('the tenancy needs the satellite auditLogs')
  })
})

test('Express: whoever has a token passes for a member, and below a mount point the path is the whole one', async () => {
  const app = express()
  const guard = createGuard(tenancy.tenants, {
    resolve: fromHeader(),
    authorize: async (request, { id }) => {
      const token = request.header(HEADER)
      if (typeof token !== 'string') return request.header('x-user') === 'member'
      return (await tenancy.impersonation.verify(id, token)).userId === 'user-42'
    },
  })
  app.use('/api', onExpress.guard(guard), onExpress.impersonation(tenancy.impersonation))
  app.get('/api/me', ({ impersonation }, response) => void response.json({ user: impersonation?.userId ?? 'member' }))
  host = await listening(createServer(app))
  const { token } = await begin()
  expect((await call('GET /api/me', { 'x-user': 'member' })).json).toEqual({ user: 'member' })
  expect(codeOf(await call('GET /api/me'))).toEqual([403, 'E_TENANT_ACCESS_DENIED'])
  expect(codeOf(await call('GET /api/me', { [HEADER]: 'imp_' }))).toEqual([401, 'E_IMPERSONATION_INVALID'])
  expect((await call('GET /api/me', { [HEADER]: token })).json).toEqual({ user: 'user-42' })
  expect((await entriesOf('impersonations.request')).map(({ after }) => after?.path)).toEqual(['/api/me'])
})

test.each(['Express', 'Node'])('%s: a route is not run after a time-out of yours has answered', async (framework) => {
  let wasRun = false
  const by = tenancy.impersonation
  const ended = Promise.withResolvers<unknown>()
  if (framework === 'Express') {
    const app = express()
    app.use(onExpress.guard(guardOf(tenancy)))
    app.use((_request, response, next) => {
      next()
      response.status(504).send('too late')
    }, onExpress.impersonation(by))
    app.use(() => {
      wasRun = true
    })
    host = await listening(createServer(app))
    ended.resolve(undefined)
  } else {
    const act = onNode.impersonation(by, () => {
      wasRun = true
    })
    const listener = onNode.guard(guardOf(tenancy), (incoming, outgoing, tenant) => {
      act(incoming, outgoing, tenant).then(ended.resolve, ended.reject)
      outgoing.writeHead(504).end('too late')
    })
    host = await listening(createServer((incoming, outgoing) => void listener(incoming, outgoing)))
  }
  const { token } = await begin()
  expect((await call('GET /orders', { [HEADER]: token })).status).toBe(504)
  expect(await ended.promise).toBeUndefined()
  await eventually(async () => expect(await entriesOf('impersonations.request')).toHaveLength(1))
  await tenancy.kernel.database.ping() // by then it would have been run
  expect(wasRun).toBe(false)
})
