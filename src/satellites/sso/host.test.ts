/** A login in an Express host, as in docs/sso.md: over HTTP, with the cookies of a browser. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { problemHandler } from '../../http/hosts/express.ts'
import { CLIENT, startProvider, type TestProvider } from './provider.fixture.ts'
import { type OpenSso, openSso } from './sso.fixture.ts'

let opened: OpenSso
let provider: TestProvider
let server: Server
let origin: string
let id: string

beforeAll(async () => {
  opened = await openSso(inject('postgresUrl'))
  const { sso, kernel } = opened.tenancy
  const app = express()
  app.get('/login/:tenant', async (request, response) => {
    const { url, setCookie } = await sso.start(request.params.tenant, { returnTo: String(request.query.to ?? '/') })
    response.append('set-cookie', setCookie).redirect(url)
  })
  app.get('/sso/callback/:tenant', async (request, response) => {
    const callback = { url: request.originalUrl, cookie: request.headers.cookie }
    const clearCookie = sso.clearCookie(callback)
    if (clearCookie) response.append('set-cookie', clearCookie)
    const login = await sso.finish(callback, { tenantId: request.params.tenant })
    response.append('x-person', login.claims.sub).redirect(login.returnTo)
  })
  app.use(problemHandler(kernel.log))
  server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  id = await opened.tenant()
  const redirectUri = `${origin}/sso/callback/${id}`
  provider = await startProvider({}, redirectUri)
  await opened.tenancy.sso.update(id, { issuer: provider.issuer, ...CLIENT, redirectUri, enabled: true })
})
afterAll(async () => {
  await provider?.close()
  server?.closeAllConnections()
  await new Promise((resolve) => server?.close(resolve))
  await opened?.end()
})

const visit = (url: string, cookie = '') => fetch(url, { redirect: 'manual', headers: { cookie } })

test('a user logs in and reaches the requested page', async () => {
  const started = await visit(`${origin}/login/${id}?to=/projects`)
  expect(started.status).toBe(302)
  const [cookie = ''] = started.headers.getSetCookie()
  expect(cookie).toMatch(/^tenantry-sso-[0-9a-f]{8}=[\w-]{43}; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/)
  const callback = await provider.logIn(started.headers.get('location') ?? '')
  const done = await visit(callback, cookie.split(';')[0])
  expect([done.status, done.headers.get('location'), done.headers.get('x-person')]).toEqual([302, '/projects', 'alice'])
  expect(done.headers.getSetCookie()[0]).toMatch(/^tenantry-sso-[0-9a-f]{8}=; Path=\/; Max-Age=0/)
})

test('a callback of a login that another browser started is a problem without details', async () => {
  const started = await visit(`${origin}/login/${id}`)
  const refused = await visit(await provider.logIn(started.headers.get('location') ?? ''))
  expect(refused.status).toBe(401)
  expect(await refused.json()).toMatchObject({ code: 'E_SSO_FAILED', reason: 'browser', status: 401 })
})

test('a user who declines keeps no cookie of that login', async () => {
  const started = await visit(`${origin}/login/${id}`)
  const [cookie = ''] = started.headers.getSetCookie()
  const state = new URL(started.headers.get('location') ?? '').searchParams.get('state')
  const iss = encodeURIComponent(provider.issuer)
  const declined = `${provider.redirectUri}?error=access_denied&state=${state}&iss=${iss}`
  const refused = await visit(declined, `other=1; ${cookie.split(';')[0]}`)
  expect(await refused.json()).toMatchObject({ code: 'E_SSO_FAILED', reason: 'denied' })
  expect(refused.headers.getSetCookie()).toEqual([
    expect.stringContaining(`${cookie.split('=')[0]}=; Path=/; Max-Age=0`),
  ])
  expect((await visit(declined)).headers.getSetCookie()).toEqual([])
})

test('a login that cannot start is a problem, too', async () => {
  expect(await (await visit(`${origin}/login/unknown`)).json()).toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  expect(await (await visit(`${origin}/login/${id}?to=//evil.example`)).json()).toMatchObject({
    code: 'E_INVALID_REQUEST',
  })
  const other = await opened.tenant()
  expect(await (await visit(`${origin}/login/${other}`)).json()).toMatchObject({
    code: 'E_SSO_NOT_ENABLED',
    status: 409,
  })
})
