/** The behaviours that every host has. A behaviour sends requests to the application (application.ts) on a host. */
import { expect } from 'vitest'
import { signatureHeaders } from '../../src/satellites/webhooks/signature/signing.ts'
import { type HttpResponse, type Sent, send } from '../http/served.ts'
import { ADMIN_TOKEN, type ApplicationTenancy, EXPORTS, WEBHOOK_SECRET } from './application.ts'

export interface Served {
  readonly origin: string
  /** Of the test: its process need not be the host. */
  readonly tenancy: ApplicationTenancy
  /** An active tenant without usage. */
  readonly tenantId: string
}

type Behaviour = (served: Served, call: (line: string, sent?: Sent) => Promise<HttpResponse>) => Promise<void>

const of = (id: string, more: Record<string, string> = {}) => ({ 'x-tenant-id': id, 'x-member-of': id, ...more })
const PROBLEM = 'application/problem+json'

function isProblem(response: HttpResponse, status: number, code: string): void {
  expect([response.status, response.json?.code]).toEqual([status, code])
  expect(response.headers['content-type']).toMatch(PROBLEM)
  expect(response.json.requestId).toMatch(/^[\w.-]{1,128}$/)
}

const table: Readonly<Record<string, Behaviour>> = {
  async 'a guarded route runs in the context of its tenant, also after it has waited'({ tenantId }, call) {
    const headers = of(tenantId, { 'x-user': 'u-7', 'x-request-id': 'r-1' })
    const response = await call('GET /context', { headers })
    expect(response.json).toEqual({ tenant: tenantId, current: tenantId, requestId: 'r-1', actor: 'u-7' })
    expect([response.status, response.headers['x-request-id']]).toEqual([200, 'r-1'])
  },

  async 'concurrent requests of two tenants keep their contexts'({ tenantId }, call) {
    const ids = Array.from({ length: 20 }, (_, n) => (n % 2 ? tenantId : 'acme'))
    const responses = await Promise.all(ids.map((id) => call('GET /context', { headers: of(id) })))
    expect(responses.map(({ json }) => [json.tenant, json.current])).toEqual(ids.map((id) => [id, id]))
  },

  async 'a route keeps its context after it has read a body'({ tenantId }, call) {
    const body = 'x'.repeat(300_000)
    const headers = of(tenantId, { 'content-type': 'text/plain' })
    expect((await call('POST /context', { headers, body })).json).toEqual({ tenant: tenantId, length: body.length })
  },

  async 'a stranger, an unknown tenant and a request without a tenant are rejected'({ tenantId }, call) {
    const stranger = { 'x-tenant-id': tenantId, 'x-member-of': 'acme' }
    isProblem(await call('GET /context', { headers: stranger }), 403, 'E_TENANT_ACCESS_DENIED')
    isProblem(await call('GET /context', { headers: of('never') }), 404, 'E_TENANT_NOT_FOUND')
    isProblem(await call('GET /context'), 400, 'E_TENANT_NOT_IDENTIFIED')
    isProblem(await call('GET /context', { headers: of('asleep') }), 403, 'E_TENANT_SUSPENDED')
  },

  async 'a central route has no tenant, and cannot use one'({ tenantId }, call) {
    const headers = of(tenantId)
    expect((await call('GET /central/plain', { headers })).json).toEqual({ tenant: null })
    isProblem(await call('GET /central/tenant', { headers }), 500, 'E_TENANT_MISMATCH')
    isProblem(await call('GET /central/storage', { headers }), 500, 'E_TENANT_MISMATCH')
  },

  async 'an error of Tenantry in a route becomes a problem, also in one of a library, and another error reaches the host'(
    { tenantId },
    call,
  ) {
    isProblem(await call('GET /never', { headers: of(tenantId) }), 404, 'E_TENANT_NOT_FOUND')
    const wrapped = await call('GET /wrapped', { headers: of(tenantId) })
    isProblem(wrapped, 404, 'E_TENANT_NOT_FOUND')
    expect(wrapped.json.detail).toBe('Tenant "never" not found.')
    const { status, headers } = await call('GET /broken', { headers: of(tenantId) })
    expect(status).toBe(500)
    expect(headers['content-type'] ?? '').not.toMatch(PROBLEM)
  },

  async 'a streamed response reads the rows of its tenant until its end'({ tenantId }, call) {
    const { body } = await call('GET /stream', { headers: of(tenantId) })
    const rows = body.trimEnd().split('\n')
    expect([rows.length, body.length]).toEqual([20, 20 * (50_000 + tenantId.length + 2)])
    expect(rows.filter((row) => !row.startsWith(`${tenantId} `))).toEqual([])
  },

  async 'a receiver verifies the bytes of a webhook on an ignored path'(_, call) {
    const body = '{ "text":  "Zoë №1" }'
    const timestampSeconds = Math.floor(Date.now() / 1000)
    const signature = { deliveryId: 'd-1', timestampSeconds, body: Buffer.from(body), secrets: [WEBHOOK_SECRET] }
    const headers = { 'content-type': 'application/json', ...signatureHeaders(signature) }
    expect((await call('POST /hooks/orders', { headers, body })).json).toEqual({ payload: { text: 'Zoë №1' } })
    isProblem(await call('POST /hooks/orders', { headers, body: `${body} ` }), 401, 'E_SIGNATURE_INVALID')
  },

  async 'a route with a quota rejects requests beyond it'({ tenantId }, call) {
    const headers = of(tenantId)
    for (let left = EXPORTS - 1; left >= 0; left--) {
      const response = await call('POST /exports', { headers })
      expect([response.status, response.json]).toEqual([200, { exported: tenantId }])
      expect(response.headers.ratelimit).toMatch(new RegExp(`^"exports";r=${left};`))
    }
    isProblem(await call('POST /exports', { headers }), 429, 'E_TENANT_QUOTA_EXCEEDED')
  },

  async 'a request with an impersonation token runs as the user, and is in the audit log'({ tenantId, tenancy }, call) {
    const { token, sessionId } = await tenancy.impersonation.start(tenantId, {
      userId: 'user-42',
      reason: 'Ticket 4711',
      actor: { id: 'staff-7', name: 'Bob' },
    })
    const headers = of(tenantId, { 'x-impersonation-token': token })
    expect((await call('GET /me', { headers })).json).toEqual({ user: 'user-42', actor: 'Bob as user-42' })
    const { data } = await tenancy.auditLogs.list(tenantId, { action: 'impersonations.request', limit: 5 })
    expect(data).toHaveLength(1)
    await tenancy.impersonation.end(sessionId)
    isProblem(await call('GET /me', { headers }), 401, 'E_IMPERSONATION_INVALID')
    expect((await call('GET /me', { headers: of(tenantId) })).json.user).toBeNull()
  },

  async 'the admin API is served, with its own authentication'({ tenantId }, call) {
    const path = `GET /admin/multitenancy/tenants/${tenantId}`
    const { status, json } = await call(path, { headers: { 'x-admin-token': ADMIN_TOKEN } })
    expect([status, json.id]).toEqual([200, tenantId])
    isProblem(await call(path), 401, 'E_UNAUTHORIZED')
    const patch = { headers: { 'x-admin-token': ADMIN_TOKEN }, body: { name: 'Änderung' } }
    expect((await call(`PATCH /admin/multitenancy/tenants/${tenantId}`, patch)).json).toMatchObject({
      name: 'Änderung',
    })
  },
}

export const behaviours: readonly (readonly [string, (served: Served) => Promise<void>])[] = Object.entries(table).map(
  ([name, behaviour]) => [name, (served) => behaviour(served, (line, sent) => send(served.origin, line, sent))],
)
