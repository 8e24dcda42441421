/** Guards and handlers of hosts with responses of other servers, thrown responses, and clients that have left. */
import { once } from 'node:events'
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import Koa from 'koa'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import * as onHono from '../../src/http/hosts/hono.ts'
import { koaHandler } from '../../src/http/hosts/koa.ts'
import { guardFetch } from '../../src/http/hosts/web.ts'
import type { Traffic } from '../../src/kernel/api/traffic.ts'
import { createGuard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Host, listening, webServer } from './hosts.ts'
import { send } from './served.ts'

let world: TestTenancy<[]>
let host: Host | undefined
beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'))
  await installed(world.tenancy, { id: 'acme', name: 'Acme' })
})
afterAll(() => world.end())
afterEach(async () => {
  await host?.close()
  host = undefined
})

const guardOf = (traffic?: Traffic) =>
  createGuard(world.tenancy.tenants, { resolve: fromHeader(), authorize: 'anyone' }, traffic)

describe('a response of another server', () => {
  test.each<[string, (origin: string) => Promise<Host>]>([
    ['web', (origin) => webServer(guardFetch(guardOf(), () => fetch(origin)))],
    [
      'hono',
      (origin) => {
        const app = new Hono<onHono.GuardedEnv>()
        app.use(onHono.guard(guardOf()))
        app.get('/', () => fetch(origin))
        return listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
      },
    ],
  ])('%s: has the id of the request instead of its own', async (_, open) => {
    const other = await listening(
      createServer((_request, response) => response.setHeader('x-request-id', 'other').end('the body')),
    )
    try {
      host = await open(other.origin)
      const { headers, body } = await send(host.origin, 'GET /', {
        headers: { 'x-tenant-id': 'acme', 'x-request-id': 'mine' },
      })
      expect([headers['x-request-id'], body]).toEqual(['mine', 'the body'])
    } finally {
      await other.close()
    }
  })
})

describe('a thrown response', () => {
  const nextError = (digest: string) => Object.assign(new Error('of Next.js'), { digest })
  test.each<[string, unknown, number]>([
    ['a Response of React Router', new Response(null, { status: 302 }), 302],
    ['a redirect of SvelteKit', { status: 303, location: '/' }, 303],
    ['a redirect of Next.js', nextError('NEXT_REDIRECT;replace;/login;307;'), 307],
    ['notFound of Next.js', nextError('NEXT_HTTP_ERROR_FALLBACK;404'), 404],
    ['an error of Next.js', nextError('1234567890'), 500],
    ['an error of an HTTP client', Object.assign(new Error('not found'), { status: 404 }), 500],
    ['nothing', undefined, 500],
  ])('counts %s with its status', async (_, thrown, status) => {
    const reported: unknown[] = []
    const guard = guardOf({ requestEnded: (...ended) => void reported.push(ended) })
    const handler = guardFetch(guard, () => Promise.reject(thrown))
    const asked = new Request('http://localhost/', { headers: { 'x-tenant-id': 'acme' } })
    expect(await handler(asked).catch((error) => error)).toBe(thrown)
    expect(reported).toEqual([['acme', status, 0]])
  })
})

test('the Koa handler ends if the client has left during earlier middleware', async () => {
  const ended = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  const app = new Koa()
  app.use(async ({ res }, next) => {
    started.resolve()
    await once(res, 'close')
    await next()
    ended.resolve()
  })
  const http = { routes: ['/admin'], handles: () => true, fetch: async () => new Response('late') }
  app.use(koaHandler(http))
  const server = createServer(app.callback())
  host = await listening(server)
  const asked = request({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  asked.on('error', () => undefined).end()
  await started.promise
  asked.destroy()
  await ended.promise
})
