/** Accepted and rejected impersonation tokens, on each framework, over real sockets. */
import { createServer } from 'node:http'
import express from 'express'
import { describe, expect, test } from 'vitest'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import { currentContext } from '../../src/kernel/base/context.ts'
import { impersonation } from '../../src/satellites/impersonation/index.ts'
import { createGuard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { listening } from './hosts.ts'
import { codeOf, guardOf, HEADER, useImpersonation } from './impersonation.fixture.ts'
import { impersonationHosts } from './impersonation-hosts.ts'
import { send } from './served.ts'

const here = useImpersonation()
const { reached, customer, admin, begin, route, call, entriesOf, refused } = here
const hosts = Object.entries(impersonationHosts)

describe.each(hosts)('%s', (_, open) => {
  const serve = async (options = {}) => {
    const { tenancy } = here
    here.host = await open({ guard: guardOf(tenancy), impersonation: tenancy.impersonation, options, route })
  }

  test('a token is rejected for another tenant, after its expiry, and after it was ended between two requests', async () => {
    await serve()
    const other = await customer(`other-${here.id}`)
    const { token: foreign } = await begin(other)
    refused(await call('GET /orders', { [HEADER]: foreign }))
    const { token, sessionId } = await begin()
    expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
    expect((await admin('DELETE', `/impersonations/${sessionId}`)).status).toBe(204)
    reached.splice(0)
    refused(await call('GET /orders', { [HEADER]: token }))
    const { token: short } = await begin(here.id, { durationSeconds: 60 })
    here.clock.advance(61_000)
    refused(await call('GET /orders', { [HEADER]: short }))
    expect(await entriesOf('impersonations.request')).toHaveLength(1)
  })

  test('an invalid token and several tokens are rejected', async () => {
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

  test('a token is accepted from a cookie, and from a configured header', async () => {
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

  test('a token is rejected on routes without a tenant', async () => {
    await serve({ cookie: 'imp' })
    const { token } = await begin()
    for (const path of ['/assets/logo.svg', '/central/tenants', '/home']) {
      const named = path === '/home' ? {} : { 'x-tenant-id': here.id }
      const { status, json } = await send(here.host.origin, `GET ${path}`, {
        headers: { ...named, cookie: `imp=${token}` },
      })
      expect([status, json.impersonation, json.actor.type]).toEqual([200, null, 'host'])
    }
    expect((await call('GET /home', { cookie: `imp=${token}` })).json.impersonation.userId).toBe('user-42')
  })

  test('a token is rejected if impersonation() comes before the guard, and the host gets the reason', async () => {
    const guard = createGuard(here.tenancy.tenants, {
      resolve: fromHeader(),
      authorize: async (request, { id }) => {
        const token = request.header(HEADER)
        return typeof token === 'string' && (await here.tenancy.impersonation.verify(id, token)).userId === 'user-42'
      },
      ignore: ['/assets/*'],
    })
    here.host = await open({ guard, impersonation: here.tenancy.impersonation, isReversed: true, route })
    const { token } = await begin()
    for (const path of ['/orders', '/assets/logo.svg']) {
      const response = await call(`GET ${path}`, { [HEADER]: token })
      expect(codeOf(response)).toEqual([400, 'E_TENANT_NOT_IDENTIFIED'])
      expect(response.json.detail).toContain('Register guard() before impersonation()')
    }
    expect(reached).toEqual([])
    expect(await entriesOf('impersonations.request')).toEqual([])
    expect((await call('GET /assets/logo.svg')).status).toBe(200)
  })

  test('a request that the guard rejects is rejected with a token, too, and the token of a deleted tenant is invalid', async () => {
    await serve()
    const { token } = await begin()
    await here.tenancy.tenants.suspend(here.id)
    refused(await call('GET /orders', { [HEADER]: token }), 403, 'E_TENANT_SUSPENDED')
    await here.tenancy.tenants.activate(here.id)
    expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
    reached.splice(0)
    await here.tenancy.tenants.delete(here.id)
    refused(await call('GET /orders', { [HEADER]: token }), 404, 'E_TENANT_NOT_FOUND')
    await here.tenancy.tenants.restore(here.id)
    refused(await call('GET /orders', { [HEADER]: token }))
    expect(await entriesOf('impersonations.request')).toHaveLength(1)
  })

  test('impersonation without an audit log is rejected when the routes are created', async () => {
    const unaudited = await here.made.open({ satellites: [impersonation()] as never })
    const request = { guard: guardOf(unaudited), impersonation: unaudited.impersonation, route }
    await expect(async () => open(request)).rejects.toThrow('the tenancy requires the satellite auditLogs')
  })
})

test('Express: a valid token passes the membership check, and below a mount point the complete path is recorded', async () => {
  const app = express()
  const guard = createGuard(here.tenancy.tenants, {
    resolve: fromHeader(),
    authorize: async (request, { id }) => {
      const token = request.header(HEADER)
      if (typeof token !== 'string') return request.header('x-user') === 'member'
      return (await here.tenancy.impersonation.verify(id, token)).userId === 'user-42'
    },
  })
  app.use('/api', onExpress.guard(guard), onExpress.impersonation(here.tenancy.impersonation))
  app.get('/api/me', ({ impersonation }, response) => void response.json({ user: impersonation?.userId ?? 'member' }))
  here.host = await listening(createServer(app))
  const { token } = await begin()
  expect((await call('GET /api/me', { 'x-user': 'member' })).json).toEqual({ user: 'member' })
  expect(codeOf(await call('GET /api/me'))).toEqual([403, 'E_TENANT_ACCESS_DENIED'])
  expect(codeOf(await call('GET /api/me', { [HEADER]: 'imp_' }))).toEqual([401, 'E_IMPERSONATION_INVALID'])
  expect((await call('GET /api/me', { [HEADER]: token })).json).toEqual({ user: 'user-42' })
  expect((await entriesOf('impersonations.request')).map(({ after }) => after?.path)).toEqual(['/api/me'])
})

test.each(['/home', '/assets/logo.svg'])(
  'Node: a second guard without a tenant for %s does not ignore a token of the first guard',
  async (path) => {
    const ran: unknown[] = []
    const act = onNode.impersonation(here.tenancy.impersonation, (_incoming, outgoing) => {
      ran.push(currentContext().tenantId)
      outgoing.end('{}')
    })
    const first = createGuard(here.tenancy.tenants, { resolve: fromHeader(), authorize: 'anyone' })
    const second = createGuard(here.tenancy.tenants, {
      resolve: fromHeader('x-second'),
      authorize: 'anyone',
      universal: ['/home'],
      ignore: ['/assets/*'],
    })
    const inner = onNode.guard(second, act)
    const listener = onNode.guard(first, (incoming, outgoing) => inner(incoming, outgoing))
    here.host = await listening(createServer((incoming, outgoing) => void listener(incoming, outgoing)))
    const { token } = await begin()
    expect(codeOf(await call(`GET ${path}`, { [HEADER]: token }))).toEqual([400, 'E_TENANT_NOT_IDENTIFIED'])
    expect((await call(`GET ${path}`)).status).toBe(200)
    expect(ran).toEqual([here.id])
  },
)

test.each(['Express', 'Node'])('%s: a route does not run after the host’s timeout has responded', async (framework) => {
  let wasRun = false
  const by = here.tenancy.impersonation
  const ended = Promise.withResolvers<unknown>()
  if (framework === 'Express') {
    const app = express()
    app.use(onExpress.guard(guardOf(here.tenancy)))
    app.use((_request, response, next) => {
      next()
      response.status(504).send('too late')
    }, onExpress.impersonation(by))
    app.use(() => {
      wasRun = true
    })
    here.host = await listening(createServer(app))
    ended.resolve(undefined)
  } else {
    const act = onNode.impersonation(by, () => {
      wasRun = true
    })
    const listener = onNode.guard(guardOf(here.tenancy), (incoming, outgoing, tenant) => {
      act(incoming, outgoing, tenant).then(ended.resolve, ended.reject)
      outgoing.writeHead(504).end('too late')
    })
    here.host = await listening(createServer((incoming, outgoing) => void listener(incoming, outgoing)))
  }
  const { token } = await begin()
  expect((await call('GET /orders', { [HEADER]: token })).status).toBe(504)
  expect(await ended.promise).toBeUndefined()
  await eventually(async () => expect(await entriesOf('impersonations.request')).toHaveLength(1))
  await here.tenancy.kernel.database.ping() // enough time for the route to run
  expect(wasRun).toBe(false)
})
