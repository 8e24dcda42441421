/** Starts every program in examples/ the way a reader starts it, and calls it over HTTP. */
import { once } from 'node:events'
import { createTenancy, schemaPg, type Tenancy } from 'tenantry'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { AnnouncementPublished, announcements } from '../examples/own-satellite/announcements.ts'
import { sessionCookie } from '../examples/sessions.ts'
import { createTestDatabase, type TestDatabase } from '../src/testing/base/database.ts'
import { type Example, startExample } from './example-program.fixture.ts'

const APP_KEY = Buffer.alloc(32, 7).toString('base64')
const ADMIN_TOKEN = 'a-token-of-the-examples'
const SESSION_SECRET = 'a-secret-of-the-examples-with-32-characters'
const ANN = { id: 'ann', name: 'Ann', tenantIds: ['acme', 'globex', 'initech'] }
/** Tests of one program run in order: the last one stops it. */
const ONE_LIFE = { shuffle: false }

process.env.SESSION_SECRET = SESSION_SECRET
vi.setConfig({ testTimeout: 90_000, hookTimeout: 180_000 })

interface Host extends Example {
  admin(method: string, path: string, body?: unknown): Promise<{ status: number; body: any }>
}

describe.each(['express', 'fastify', 'hono', 'standalone'])('examples/%s', (name) => {
  describe('started program', ONE_LIFE, () => {
    let database: TestDatabase
    let host: Host
    let tenancy: Tenancy

    beforeAll(async () => {
      database = await createTestDatabase(inject('postgresUrl'))
      host = await start(name, database.url)
      tenancy = await createTenancy({
        database: { url: database.url },
        appKey: APP_KEY,
        isolation: [schemaPg()],
        role: 'api',
      })
      for (const id of ['acme', 'globex']) {
        expect(await host.admin('POST', '/tenants', { id, name: id })).toMatchObject({
          status: 201,
          body: { status: 'active' },
        })
        const { db } = await tenancy.tenant(id)
        await db
          .insertInto('notes')
          .values({ title: `a note of ${id}` })
          .execute()
      }
    })

    afterAll(async () => {
      await tenancy?.stop()
      host?.child.kill('SIGKILL')
      await database?.drop()
    })

    const notes = async (tenant?: string, cookie = sessionCookie(ANN)) => {
      const headers = { cookie, ...(tenant === undefined ? {} : { 'x-tenant': tenant }) }
      const response = await fetch(`${host.url}/notes`, { headers })
      return { status: response.status, body: await response.json() }
    }

    test('serves the admin API, the probes and the metrics in addition to its own routes', async () => {
      expect((await host.admin('GET', '/tenants')).body.data).toHaveLength(2)
      expect((await fetch(`${host.url}/admin/multitenancy/tenants`)).status).toBe(401)
      expect((await fetch(`${host.url}/readyz`)).status).toBe(200)
      expect(await (await fetch(`${host.url}/metrics`)).text()).toContain('multitenancy_tenants_total')
      expect((await fetch(`${host.url}/nothing-here`)).status).toBe(404)
    })

    test('returns the rows of the requested tenant only', async () => {
      expect(await notes('acme')).toMatchObject({ status: 200, body: [{ id: 1, title: 'a note of acme' }] })
      expect(await notes('globex')).toMatchObject({ status: 200, body: [{ id: 1, title: 'a note of globex' }] })
    })

    test('rejects an unknown tenant, and a request without a tenant', async () => {
      expect(await notes('initech')).toMatchObject({ status: 404, body: { code: 'E_TENANT_NOT_FOUND' } })
      expect(await notes()).toMatchObject({ status: 400, body: { code: 'E_TENANT_NOT_IDENTIFIED' } })
    })

    test('rejects a caller without a session, a forged session, and a user of another tenant', async () => {
      const denied = { status: 403, body: { code: 'E_TENANT_ACCESS_DENIED' } }
      expect(await notes('acme', '')).toMatchObject(denied)
      expect(await notes('acme', sessionCookie({ ...ANN, tenantIds: ['globex'] }))).toMatchObject(denied)
      const [session = ''] = sessionCookie(ANN).split('.')
      expect(await notes('acme', `${session}.${'A'.repeat(43)}`)).toMatchObject(denied)
    })

    test('rejects a suspended tenant as soon as the suspension has returned', async () => {
      expect((await host.admin('PUT', '/tenants/globex/suspend')).status).toBe(200)
      expect(await notes('globex')).toMatchObject({ status: 403, body: { code: 'E_TENANT_SUSPENDED' } })
      expect((await notes('acme')).status).toBe(200)
      expect((await host.admin('PUT', '/tenants/globex/activate')).status).toBe(200)
      expect((await notes('globex')).status).toBe(200)
    })

    test('exits on SIGTERM', async () => {
      host.child.kill('SIGTERM')
      if (host.child.exitCode === null) await once(host.child, 'exit')
      expect(host.child).toMatchObject({ exitCode: 0, signalCode: null })
      await expect(fetch(host.url)).rejects.toThrow()
    })
  })
})

describe('examples/own-satellite', ONE_LIFE, () => {
  let database: TestDatabase
  let host: Host

  beforeAll(async () => {
    database = await createTestDatabase(inject('postgresUrl'))
    host = await start('own-satellite', database.url)
    await host.admin('POST', '/tenants', { id: 'acme', name: 'Acme' })
    await host.admin('POST', '/tenants', { id: 'globex', name: 'Globex' })
  })

  afterAll(async () => {
    host?.child.kill('SIGKILL')
    await database?.drop()
  })

  test('the operations of a custom satellite are in the admin API and in openapi.json', async () => {
    const made = await host.admin('POST', '/tenants/acme/announcements', { title: 'We are moving', body: 'In May.' })
    expect(made).toMatchObject({ status: 201, body: { tenantId: 'acme', title: 'We are moving', body: 'In May.' } })
    await host.admin('POST', '/tenants/acme/announcements', { title: 'We have moved', body: '' })

    const first = await host.admin('GET', '/tenants/acme/announcements?limit=1')
    expect(first.body).toMatchObject({ data: [{ title: 'We have moved' }], nextCursor: expect.any(String) })
    const second = await host.admin('GET', `/tenants/acme/announcements?limit=1&cursor=${first.body.nextCursor}`)
    expect(second.body).toEqual({ data: [made.body], nextCursor: null })
    expect((await host.admin('GET', '/tenants/globex/announcements')).body.data).toEqual([])

    const { paths } = (await host.admin('GET', '/openapi.json')).body
    expect(JSON.stringify(paths)).toContain('announcements.publish')
  })

  test('an invalid request to a custom satellite returns a problem', async () => {
    const unknown = await host.admin('POST', '/tenants/initech/announcements', { title: 'Hello', body: '' })
    expect(unknown).toMatchObject({ status: 404, body: { code: 'E_TENANT_NOT_FOUND' } })
    expect((await host.admin('GET', '/tenants/initech/announcements')).status).toBe(404)
    const empty = await host.admin('POST', '/tenants/acme/announcements', { title: '', body: '' })
    expect(empty).toMatchObject({ status: 400, body: { code: 'E_INVALID_REQUEST', errors: [{ path: 'title' }] } })
  })

  test('the host receives the events of a custom satellite', async () => {
    await host.admin('POST', '/tenants/globex/announcements', { title: 'Closed on Friday', body: '' })
    await vi.waitUntil(() => host.output().includes('globex received: Closed on Friday'), { timeout: 30_000 })
  })

  test('the service, event and command of a custom satellite work from code, and a purge deletes its rows', async () => {
    const tenancy = await createTenancy({
      database: { url: database.url },
      appKey: APP_KEY,
      isolation: [schemaPg()],
      satellites: [announcements()],
      tenants: { retentionDays: 0 },
      role: 'api',
    })
    onTestFinished(() => tenancy.stop())
    await host.admin('POST', '/tenants', { id: 'umbrella', name: 'Umbrella' })
    const received: string[] = []
    tenancy.on(AnnouncementPublished, ({ title }) => void received.push(title))

    await tenancy.announcements.publish('umbrella', { title: 'From code', body: '' })
    const command = tenancy.commands.find(({ what }) => what.name === 'announcements:publish')
    const printed: unknown[] = []
    await command?.what.run(command.service, {
      args: { id: 'umbrella' },
      options: { title: 'From a terminal', body: '' },
      terminal: { record: (value: unknown) => printed.push(value) } as any,
      signal: AbortSignal.timeout(10_000),
    })
    expect(printed).toMatchObject([{ title: 'From a terminal' }])
    await vi.waitUntil(() => received.length === 2, { timeout: 30_000 })
    expect(received).toEqual(['From code', 'From a terminal'])

    await tenancy.tenants.delete('umbrella')
    await tenancy.tenants.installation.purge('umbrella')
    const { rows } = await tenancy.kernel.database.sql(
      'select tenant_id, count(*) from multitenancy.announcements group by 1',
    )
    expect(rows.map(({ tenant_id }) => tenant_id).sort()).toEqual(['acme', 'globex'])
    await expect(tenancy.announcements.list('umbrella', { limit: 10 })).rejects.toMatchObject({
      code: 'E_TENANT_NOT_FOUND',
    })
  })

  test('exits on SIGTERM', async () => {
    host.child.kill('SIGTERM')
    if (host.child.exitCode === null) await once(host.child, 'exit')
    expect(host.child).toMatchObject({ exitCode: 0, signalCode: null })
  })
})

describe('examples/quotas', ONE_LIFE, () => {
  let database: TestDatabase
  let host: Host

  beforeAll(async () => {
    database = await createTestDatabase(inject('postgresUrl'))
    host = await start('quotas', database.url)
    for (const id of ['acme', 'globex']) await host.admin('POST', '/tenants', { id, name: id })
  })

  afterAll(async () => {
    host?.child.kill('SIGKILL')
    await database?.drop()
  })

  const report = async (tenant: string) => {
    const headers = { 'x-tenant': tenant, cookie: sessionCookie(ANN) }
    const response = await fetch(`${host.url}/reports`, { method: 'POST', headers })
    return { status: response.status, body: await response.json() }
  }

  test('enforces the quota of the plan, and a higher quota after a change of plan', async () => {
    const responses = await Promise.all(Array.from({ length: 8 }, () => report('acme')))
    expect(responses.map(({ status }) => status).sort()).toEqual([201, 201, 201, 429, 429, 429, 429, 429])
    expect(await report('acme')).toMatchObject({ status: 429, body: { code: 'E_TENANT_QUOTA_EXCEEDED', plan: 'free' } })
    expect((await report('globex')).status).toBe(201)
    await vi.waitUntil(() => host.output().includes('acme has used 100 % of its reports'), { timeout: 30_000 })

    expect((await host.admin('PUT', '/tenants/acme/plans/pro')).status).toBe(200)
    expect(await report('acme')).toEqual({ status: 201, body: { report: 'made for acme' } })
    const left = await fetch(`${host.url}/reports/left`, {
      headers: { 'x-tenant': 'acme', cookie: sessionCookie(ANN) },
    })
    expect(await left.json()).toMatchObject({ usage: 4, limit: 300, remaining: 296 })
  })

  test('exits on SIGTERM', async () => {
    host.child.kill('SIGTERM')
    if (host.child.exitCode === null) await once(host.child, 'exit')
    expect(host.child).toMatchObject({ exitCode: 0, signalCode: null })
  })
})

async function start(name: string, databaseUrl: string): Promise<Host> {
  const example = await startExample(`${name}/host.ts`, {
    DATABASE_URL: databaseUrl,
    TENANTRY_APP_KEY: APP_KEY,
    TENANTRY_ADMIN_TOKEN: ADMIN_TOKEN,
    SESSION_SECRET,
  })
  return {
    ...example,
    async admin(method, path, body) {
      const response = await fetch(`${example.url}/admin/multitenancy${path}`, {
        method,
        headers: { 'x-admin-token': ADMIN_TOKEN, 'content-type': 'application/json', prefer: 'wait=20' },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      return { status: response.status, body: await response.json() }
    },
  }
}
