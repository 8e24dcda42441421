/** Identities of a host (`identify`): precedence, permissions, origin of changes, mistakes of the host. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { HttpOptions } from '../../src/http/app.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { webhooks } from '../../src/satellites/webhooks/index.ts'
import { type Access, ADMIN, cookieOf, openAccess, type Process } from '../../src/tenancy/tokens/access.fixture.ts'

const ORIGIN = { origin: 'http://localhost' }
const ANN = { 'x-user': 'ann' }
const lines: any[] = []

let access: Access
let host: Process
const seen: Request[] = []

const identify: NonNullable<HttpOptions['identify']> = async (request) => {
  seen.push(request)
  const user = request.headers.get('x-user')
  if (user === 'thrown') throw new Error('the session store of the host is unavailable')
  if (user === 'wrong') return { name: '', may: ['admin'] }
  if (user === 'typo') return { name: 'typo', may: ['tenants.lits'] }
  if (user === 'nothing') return { name: 'nothing', may: [] }
  if (user === 'disabled') return { name: 'disabled', may: ['tenants.list', 'webhooks.*', '!webhooks.dispatch'] }
  if (user === 'longest') return { name: 'n'.repeat(254), may: ['read'] }
  if (user === 'longer') return { name: 'n'.repeat(255), may: ['read'] }
  if (user === 'limited') return { name: 'limited', may: ['tenants.*'], tenants: ['acme'] }
  return user === 'ann' ? { name: 'ann', may: ['tenants.*', '!tenants.delete'] } : undefined
}

beforeAll(async () => {
  const logger = createLogger({ write: (line) => void lines.push(JSON.parse(line)) })
  access = await openAccess(inject('postgresUrl'), { logger }, { identify })
  host = access.here
})
afterAll(() => access?.opened.end())

const call = (line: string, headers: Record<string, string> = {}, body?: unknown) =>
  host.call(undefined, line, body, headers)

describe('precedence', () => {
  test('a request without a token has the identity of the host', async () => {
    const { json } = await call('GET /session', ANN)
    expect(json).toMatchObject({ name: 'ann', may: ['tenants.*', '!tenants.delete'], tenants: null, expiresAt: null })
    expect(Object.keys(json.operations)).not.toContain('tenants.delete')
  })

  test('the token of a request comes first, and identify is not called', async () => {
    seen.length = 0
    expect(await host.call(ADMIN, 'GET /session', undefined, ANN)).toMatchObject({ json: { name: 'admin' } })
    expect(await host.call('wrong-token-0123456789', 'GET /session', undefined, ANN)).toMatchObject({ status: 401 })
    expect(seen).toEqual([])
  })

  test('the identity of the host comes before the session cookie, which is next', async () => {
    const cookie = cookieOf(await call('POST /session', {}, { token: ADMIN }))
    expect(await call('GET /session', { cookie, ...ANN })).toMatchObject({ json: { name: 'ann' } })
    expect(await call('GET /session', { cookie })).toMatchObject({ json: { name: 'admin' } })
    expect(await call('GET /session')).toMatchObject({ status: 401 })
  })

  test('identify receives method, URL and headers without the body, which the operation reads', async () => {
    seen.length = 0
    const { status } = await call('POST /tenants', { ...ANN, ...ORIGIN }, { id: 'of-ann', name: 'Of Ann' })
    expect(status).toBe(201)
    expect(seen.map(({ method, body, url }) => [method, body, new URL(url).pathname])).toEqual([
      ['POST', null, '/admin/multitenancy/tenants'],
    ])
  })
})

describe('permissions', () => {
  test('are those of its patterns and tenants', async () => {
    expect(await call('GET /tenants', ANN)).toMatchObject({ status: 200 })
    expect(await call('DELETE /tenants/acme', { ...ANN, ...ORIGIN })).toMatchObject({ status: 403 })
    expect(await call('GET /tenants/globex', { 'x-user': 'limited' })).toMatchObject({ status: 403 })
    expect(await call('GET /tenants/acme', { 'x-user': 'limited' })).toMatchObject({ status: 404 })
  })

  test('may name operations of disabled satellites, as those of configured tokens', async () => {
    const may = ['tenants.list', 'webhooks.*', '!webhooks.dispatch']
    const configured = { name: 'configured', token: 'token-of-a-configuration', may }
    const other = await access.open({}, { identify, adminTokens: [configured], switchedOff: [webhooks()] })
    const [ofHost, ofToken] = [
      await other.call(undefined, 'GET /session', undefined, { 'x-user': 'disabled' }),
      await other.call(configured.token, 'GET /session'),
    ]
    expect(ofHost).toMatchObject({ status: 200, json: { may } })
    expect(ofHost.json.operations).toEqual(ofToken.json.operations)
    expect(Object.keys(ofHost.json.operations)).toContain('tenants.list')
    const typo = await other.call(undefined, 'GET /session', undefined, { 'x-user': 'typo' })
    expect(typo).toMatchObject({ status: 500 })
  })

  test('its actor differs from that of a configured token with the same name, which may be as long as an e-mail address', async () => {
    const other = await access.open({}, { identify: () => ({ name: 'admin', may: ['tokens.*'] }) })
    const created = async (by: string | undefined, name: string) =>
      (await other.call(by, 'POST /tokens', { name, may: ['tokens.list'] }, ORIGIN)).json.creator
    expect(await created(undefined, 'by the host')).toEqual({ type: 'admin', id: 'identify:admin', name: 'admin' })
    expect(await created(ADMIN, 'by the token')).toEqual({ type: 'admin', id: 'admin', name: 'admin' })
    expect(await call('GET /session', { 'x-user': 'longest' })).toMatchObject({ json: { name: 'n'.repeat(254) } })
  })

  test('a change must have the origin of the API', async () => {
    const create = (headers: Record<string, string>) =>
      call('POST /tenants', { ...ANN, ...headers }, { name: 'Forged' })
    for (const headers of [{}, { origin: 'https://evil.example' }, { origin: 'null' }] as Record<string, string>[])
      expect(await create(headers)).toMatchObject({ status: 403, json: { code: 'E_FORBIDDEN' } })
    expect(await create(ORIGIN)).toMatchObject({ status: 201 })
  })

  test('a token that it creates is within them', async () => {
    const other = await access.open({}, { identify: () => ({ name: 'ann', may: ['tokens.*'] }) })
    const create = async (may: string[]) =>
      (await other.call(undefined, 'POST /tokens', { name: `of ann ${may}`, may }, ORIGIN)).status
    expect([await create(['tokens.list']), await create(['tenants.list'])]).toEqual([201, 403])
  })
})

describe('a mistake of the host', () => {
  test.each([
    ['thrown', 'the session store of the host is unavailable'],
    ['wrong', 'identify.name'],
    ['longer', 'identify.name'],
    ['disabled', 'webhooks.'],
    ['typo', 'tenants.lits'],
    ['nothing', 'identify.may'],
  ])('rejects the request, and only the log has its reason: %s', async (user, reason) => {
    lines.length = 0
    const response = await call('GET /tenants', { 'x-user': user })
    expect(response).toMatchObject({ status: 500, json: { code: 'E_INTERNAL' } })
    expect(response.text).not.toContain(reason)
    expect(JSON.stringify(lines)).toContain(reason)
  })
})

test('with identify, no configured token is required', async () => {
  const other = await access.open({}, { identify, adminTokens: [] })
  expect(await other.call(undefined, 'GET /tenants', undefined, ANN)).toMatchObject({ status: 200 })
  expect(await other.call(undefined, 'GET /tenants')).toMatchObject({ status: 401 })
  expect(await other.call(ADMIN, 'GET /tenants')).toMatchObject({ status: 401 })
  await expect(other.http.signInLink()).rejects.toThrow('no admin token is configured')
})
