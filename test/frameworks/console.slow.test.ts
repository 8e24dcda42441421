/** The console on every framework: one option of the host, under a prefix of the host. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { memoryStore } from '../../src/drivers/store/memory.ts'
import { type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import type { Host } from '../http/hosts.ts'
import { type HttpResponse, send } from '../http/served.ts'
import { ADMIN_TOKEN, type Application, applicationOf, CONFIG } from './application.ts'
import { hosts } from './hosts.ts'

const PREFIX = '/ops/tenants'
const BUILD_LIMIT_MS = 120_000

let world: TestTenancy<typeof CONFIG.satellites>
let withConsole: Application
let withoutConsole: Application
beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'), { ...CONFIG, store: memoryStore() })
  withConsole = applicationOf(world.tenancy, { prefix: PREFIX, console: { name: 'Acme Operations' } })
  withoutConsole = applicationOf(await world.open({ role: 'api' }), { prefix: PREFIX, console: false })
})
afterAll(() => world?.end())

/** The page, after the first request has built the console. */
async function shellOf({ origin }: Host, path: string): Promise<HttpResponse> {
  for (;;) {
    const response = await send(origin, `GET ${path}`)
    if (!response.body.includes('http-equiv="refresh"')) return response
  }
}

describe.each(Object.entries(hosts))('%s', (_, open) => {
  let host: Host
  beforeAll(async () => {
    host = await open(withConsole)
    await shellOf(host, `${PREFIX}/console`)
  }, BUILD_LIMIT_MS)
  afterAll(() => host?.close())

  test('the page and its files are below the prefix of the host', async () => {
    const page = await shellOf(host, `${PREFIX}/console`)
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
    expect(page.headers['content-security-policy']).toMatch(/script-src 'nonce-/)
    expect(page.body).toContain('<title>Acme Operations</title>')
    const files = [...page.body.matchAll(/(?:src|href)="([^"]+\.(?:js|css))"/g)].map(([, path = '']) => path)
    expect(files.length).toBeGreaterThan(3)
    expect(files.filter((path) => !path.startsWith(`${PREFIX}/console/assets/`))).toEqual([])
    for (const path of files) {
      const { status, headers, body } = await send(host.origin, `GET ${path}`)
      expect([status, headers['content-type']]).toEqual([200, expect.stringMatching(/^text\/(javascript|css)/)])
      expect(headers['cache-control']).toContain('immutable')
      expect(body).not.toBe('')
    }
  })

  test('addresses of screens have the same page, and unknown files are rejected', async () => {
    const { status, body } = await shellOf(host, `${PREFIX}/console/tenants/acme/webhooks?open=new`)
    expect([status, body.includes('id="console"')]).toEqual([200, true])
    const unknown = await send(host.origin, `GET ${PREFIX}/console/assets/main-00000000.js`)
    expect([unknown.status, unknown.json?.code]).toEqual([404, 'E_NOT_FOUND'])
  })

  test('the prefix leads browsers to the console, and other paths stay those of the host', async () => {
    const root = await send(host.origin, `GET ${PREFIX}`, { headers: { accept: 'text/html' } })
    expect([root.status, root.headers.location]).toEqual([302, `${PREFIX}/console`])
    expect((await send(host.origin, 'GET /central/plain')).json).toEqual({ tenant: null })
  })

  test('console: false leaves it out', async () => {
    const without = await open(withoutConsole)
    try {
      const headers = { 'x-admin-token': ADMIN_TOKEN }
      for (const path of ['/console', '/console/tenants', '/console/assets/main-00000000.js', '/session/operations']) {
        const { status, json } = await send(without.origin, `GET ${PREFIX}${path}`, { headers })
        expect([path, status, json?.code]).toEqual([path, 404, 'E_NOT_FOUND'])
      }
      expect((await send(without.origin, `GET ${PREFIX}/session`, { headers })).status).toBe(200)
    } finally {
      await without.close()
    }
  })
})
