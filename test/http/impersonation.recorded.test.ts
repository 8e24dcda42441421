/** Impersonated requests to routes of a host, on each framework, and their audit entries. */
import { describe, expect, test } from 'vitest'
import type { AuditEntry } from '../../src/satellites/audit-logs/index.ts'
import { createGuard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { guardOf, HEADER, REASON, useImpersonation } from './impersonation.fixture.ts'
import { impersonationHosts } from './impersonation-hosts.ts'

const here = useImpersonation()
const { lines, admin, begin, route, call, entriesOf, refused } = here
const hosts = Object.entries(impersonationHosts)

async function exportOf(tenantId: string): Promise<AuditEntry[]> {
  const lines = (await Array.fromAsync(await here.tenancy.auditLogs.export(tenantId, 'ndjson')))
    .join('')
    .trim()
    .split('\n')
  return lines.map((line) => JSON.parse(line))
}

describe.each(hosts)('%s', (_, open) => {
  const serve = async (options = {}) => {
    const { tenancy } = here
    here.host = await open({ guard: guardOf(tenancy), impersonation: tenancy.impersonation, options, route })
  }

  test('a request without a token is not impersonated and not recorded', async () => {
    await serve()
    const { status, json } = await call('POST /orders', {}, 'change')
    expect(status).toBe(200)
    expect(json).toMatchObject({ impersonation: null, actor: { type: 'host' }, tenantId: here.id })
    expect(await entriesOf('impersonations.request')).toEqual([])
    expect(await entriesOf('orders.cancel')).toMatchObject([{ actor: { type: 'host', id: 'host', name: 'host' } }])
  })

  test('a request with a token runs as the user, and it and its changes are recorded before it runs', async () => {
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
      tenantId: here.id,
    })
    expect(answered['x-request-id']).toBe('r-1')
    const inNameOf = { sessionId, userId: 'user-42' }
    expect(await entriesOf('impersonations.request')).toEqual([
      expect.objectContaining({
        tenantId: here.id,
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
    expect(await exportOf(here.id)).toContainEqual(
      expect.objectContaining({ action: 'orders.cancel', after: { impersonation: inNameOf } }),
    )
    expect((await here.tenancy.auditLogs.verify({ tenantId: here.id })).broken).toEqual([])
    expect(
      (await here.tenancy.auditLogs.list(here.id, { actor: 'alice' })).data.map(({ action }) => action).toSorted(),
    ).toEqual([...['impersonations.request', 'impersonations.start', 'orders.cancel']])
    expect((await call('POST /orders', {}, 'change')).json).toMatchObject({ impersonation: null })
  })

  test('an impersonated request has one audit entry, with its path and without its query', async () => {
    const authenticator = here.tenancy.impersonation.authenticator()
    const guard = createGuard(here.tenancy.tenants, {
      resolve: fromHeader(),
      authorize: async (request, { id }) => {
        const token = request.header(HEADER)
        return typeof token === 'string' && (await authenticator.authenticate(id, token, request)).userId === 'user-42'
      },
    })
    const { token, sessionId } = await begin()
    const { token: another } = await begin()
    here.host = await open({ guard, impersonation: here.tenancy.impersonation, route })
    expect((await call('GET /orders', { [HEADER]: token })).json.impersonation.sessionId).toBe(sessionId)
    expect(await entriesOf('impersonations.request')).toHaveLength(1)
    expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
    expect((await call('GET /orders', { [HEADER]: another })).status).toBe(200)
    expect(await entriesOf('impersonations.request')).toHaveLength(3)
    await here.host.close()
    here.host = await open({
      guard,
      impersonation: here.tenancy.impersonation,
      options: { header: 'x-another' },
      route,
    })
    expect((await call('GET /orders', { [HEADER]: token })).json.impersonation).toBeNull()
    expect(await entriesOf('impersonations.request')).toHaveLength(4)
  })

  test('concurrent impersonated requests are each recorded, and run as their own user', async () => {
    await serve()
    const tokens = [await begin(), await begin(here.id, { userId: 'user-7' })].map(({ token }) => token)
    const wanted = Array.from({ length: 30 }, (_, n) => ({ path: `/orders/${n}`, token: tokens[n % 3] }))
    const responses = await Promise.all(
      wanted.map(({ path, token }) => call(`POST ${path}`, token === undefined ? {} : { [HEADER]: token }, 'change')),
    )
    expect(responses.map(({ json }) => json.impersonation?.userId)).toEqual(
      wanted.map(({ token }) => (token === undefined ? undefined : token === tokens[0] ? 'user-42' : 'user-7')),
    )
    const paths = (await entriesOf('impersonations.request')).map(({ after }) => String(after?.path))
    expect(paths.toSorted()).toEqual(wanted.flatMap(({ path, token }) => (token ? [path] : [])).toSorted())
    const actors = (await entriesOf('orders.cancel')).map(({ actor }) => actor.name).toSorted()
    expect(actors).toEqual(wanted.map((_, n) => ['alice as user-42', 'alice as user-7', 'host'][n % 3]).toSorted())
  })

  test('a request that cannot be recorded does not run', async () => {
    await serve()
    const { token } = await begin()
    const table = 'alter table multitenancy.audit_entries'
    await here.tenancy.kernel.database.sql(
      `${table} add constraint no_more check (action <> 'impersonations.request' or tenant_id <> '${here.id}') not valid`,
    )
    try {
      const response = await call('GET /orders', { [HEADER]: token })
      refused(response, 503, 'E_DEPENDENCY_UNAVAILABLE')
      expect(Number(response.headers['retry-after'])).toBeGreaterThan(0)
      expect(response.body).not.toContain('no_more')
      expect(lines.join('')).toContain('no_more')
      expect((await call('GET /orders')).status).toBe(200)
    } finally {
      await here.tenancy.kernel.database.sql(`${table} drop constraint no_more`)
    }
    expect((await call('GET /orders', { [HEADER]: token })).status).toBe(200)
  })

  test('no log line, audit entry or list contains a token', async () => {
    await serve({ cookie: 'imp' })
    const { token, sessionId } = await begin()
    await call(`GET /x/${token}?token=${token}`, { [HEADER]: token }, undefined)
    await call('GET /orders', { cookie: `imp=${token}; imp=x` })
    await admin('DELETE', `/impersonations/${sessionId}`)
    await call('GET /orders', { [HEADER]: token })
    const list = await admin('GET', `/tenants/${here.id}/impersonations`)
    expect(list.json.data).toMatchObject([{ sessionId, endedAt: expect.any(String) }])
    const { rows } = await here.tenancy.kernel.database.sql(
      `select string_agg(e::text, E'\\n') as text from multitenancy.audit_entries e where tenant_id = $1`,
      [here.id],
    )
    expect(rows[0].text).toContain('/x/')
    for (const text of [lines.join('\n'), JSON.stringify(list.json), rows[0].text]) expect(text).not.toContain(token)
  })

  test('an error of the route reaches the host after the request was recorded', async () => {
    const { token } = await begin()
    here.host = await open({
      guard: guardOf(here.tenancy),
      impersonation: here.tenancy.impersonation,
      route: () => {
        throw new Error('mine')
      },
    })
    const failed = await call('GET /orders', { [HEADER]: token })
    expect([failed.status, failed.body]).toEqual([500, 'host: mine'])
    expect(await entriesOf('impersonations.request')).toHaveLength(1)
  })
})
