/** The backoffice database is read-only: reads continue, and each write returns 503 with Retry-After. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createHttp, type Http } from '../../src/http/app.ts'
import { onServer } from '../../src/testing/base/database.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'

const TOKEN = 'a-token-for-this-test'

let opened: TestTenancy<[]>
let http: Http
/** The same tenancy with a critical check. */
let critical: Http

const httpOf = (tenancy: TestTenancy<[]>['tenancy']) =>
  createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TOKEN }] })

interface CallOptions {
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

/** @param at method and path, such as `GET /readyz` */
async function call(to: Http, at: string, { body, headers }: CallOptions = {}) {
  const [method = '', path] = at.split(' ')
  const request = new Request(`http://tenantry.test${path}`, {
    method,
    headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json', ...headers },
    body: body === undefined ? null : JSON.stringify(body),
  })
  const response = await to.fetch(request)
  return { status: response.status, json: (await response.json()) as any, headers: response.headers }
}

/** @param at method and path within the admin API */
const callAdmin = (to: Http, at: string, options?: CallOptions) =>
  call(to, at.replace(' ', ' /admin/multitenancy'), options)

/** New sessions have the setting; the present ones are ended. */
async function setReadOnly(isReadOnly: boolean): Promise<void> {
  const name = new URL(opened.url).pathname.slice(1)
  await onServer(inject('postgresUrl'), async (server) => {
    await server.sql(`alter database ${name} set default_transaction_read_only = ${isReadOnly ? 'on' : 'off'}`)
    await server.sql('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [name])
  })
  await eventually(async () => {
    expect((await call(http, 'GET /readyz')).json.checks.backoffice.status).toBe(isReadOnly ? 'fail' : 'pass')
  })
}

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'))
  await installed(opened.tenancy, { id: 'acme', name: 'Acme' })
  http = httpOf(opened.tenancy)
  critical = httpOf(await opened.open({ role: 'api', health: { critical: ['backoffice'] } }))
})
afterAll(() => opened?.end())

describe('a read-only backoffice', { shuffle: false }, () => {
  beforeAll(() => setReadOnly(true))

  test('fails the check with its reason: 200, or 503 if the check is critical', async () => {
    const backoffice = { status: 'fail', message: 'database is read-only' }
    expect(await call(http, 'GET /readyz')).toMatchObject({
      status: 200,
      json: { status: 'degraded', checks: { backoffice } },
    })
    await eventually(async () => {
      expect(await call(critical, 'GET /readyz')).toMatchObject({
        status: 503,
        json: { status: 'fail', checks: { backoffice } },
      })
    })
  })

  test('returns reads, and rejects writes with 503 and Retry-After', async () => {
    for (const path of ['/tenants', '/tenants/acme', '/tenants/acme/transfers']) {
      expect([path, (await callAdmin(http, `GET ${path}`)).status]).toEqual([path, 200])
    }
    const headers = { 'idempotency-key': 'once' }
    const body = { name: 'Globex' }
    for (const [at, options] of [
      ['POST /tenants', { body }],
      ['POST /tenants', { body, headers }],
      ['PATCH /tenants/acme', { body }],
      ['DELETE /tenants/acme', {}],
    ] as const) {
      const { status, json, headers } = await callAdmin(http, at, options)
      expect([at, status, json.code, headers.get('retry-after')]).toEqual([at, 503, 'E_DEPENDENCY_UNAVAILABLE', '5'])
      expect(json.detail).toContain('read-only')
    }
  })

  test('is a finding of the doctor', async () => {
    const { status, json } = await callAdmin(http, 'GET /doctor')
    expect(status).toBe(503)
    expect(json.checks).toContainEqual(
      expect.objectContaining({ name: 'backoffice', code: 'backoffice.read-only', severity: 'error', fixable: false }),
    )
  })

  test('accepts writes without a restart when it is writable again', async () => {
    await setReadOnly(false)
    expect((await callAdmin(http, 'PATCH /tenants/acme', { body: { name: 'Acme Corp' } })).status).toBe(200)
    expect((await callAdmin(http, 'GET /doctor')).json.checks).toEqual([])
  })
})
