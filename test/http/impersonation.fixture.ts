/** A tenancy with the audit log and impersonation, whose routes are served over real sockets. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject } from 'vitest'
import { createHttp, type Http } from '../../src/http/app.ts'
import { currentContext } from '../../src/kernel/base/context.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { recordChange } from '../../src/kernel/events/changes.ts'
import { type AuditEntry, auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { impersonation } from '../../src/satellites/impersonation/index.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { createGuard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { fakeClock } from '../../src/testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import type { Host } from './hosts.ts'
import type { Called } from './impersonation-hosts.ts'
import { type HttpResponse, PREFIX, send, TOKEN } from './served.ts'

export type Satellites = [ReturnType<typeof auditLogs>, ReturnType<typeof impersonation>]

export const HEADER = 'x-impersonation-token'
export const REASON = 'Ticket 4711: exports fail'
const PROBLEM = 'application/problem+json'

export const guardOf = ({ tenants }: Pick<Tenancy, 'tenants'>) =>
  createGuard(tenants, {
    resolve: fromHeader(),
    authorize: 'anyone',
    central: ['/central/*'],
    ignore: ['/assets/*'],
    universal: ['/home'],
  })

export const codeOf = ({ status, json }: HttpResponse) => [status, json?.code]

/** State of one file: each test has its own tenant. */
export function useImpersonation() {
  const clock = fakeClock()
  const lines: string[] = []
  const reached: Called[] = []
  let made: TestTenancy<Satellites>
  let http: Http
  let host: Host
  let id: string
  let count = 0

  beforeAll(async () => {
    made = await testTenancy(inject('postgresUrl'), {
      clock,
      role: 'api',
      satellites: [auditLogs(), impersonation()],
      logger: createLogger({ level: 'trace', write: (line) => void lines.push(line) }),
    })
    http = createHttp(made.tenancy, { adminTokens: [{ name: 'alice', token: TOKEN }] })
  })
  afterAll(() => made?.end())
  beforeEach(async () => {
    count += 1
    id = await customer(`customer-${count}`)
    reached.splice(0)
    lines.splice(0)
  })
  afterEach(() => host?.close())

  /** An active tenant, installed by this process because the tenancy has no workers. */
  async function customer(id: string): Promise<string> {
    await made.tenancy.tenants.create({ id, name: 'Customer' })
    await made.tenancy.tenants.installation.install(id, { isLast: true })
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

  /** Records a change, as a route that uses Tenantry does, and returns its input. */
  const route = async (called: Called) => {
    reached.push(called)
    const { actor, requestId, tenantId } = currentContext()
    if (called.body === 'change') {
      const change = { action: 'orders.cancel', tenantId: called.tenantId ?? null, target: 'order:1' }
      await recordChange(made.tenancy.kernel.events, change)
    }
    return { impersonation: called.impersonation ?? null, actor, requestId, tenantId: tenantId ?? null }
  }

  const call = (line: string, headers: Record<string, string | string[]> = {}, body?: string) =>
    send(host.origin, line, { headers: { 'x-tenant-id': id, 'content-type': 'text/plain', ...headers }, body })
  const entriesOf = async (action: string, tenantId = id): Promise<AuditEntry[]> =>
    (await made.tenancy.auditLogs.list(tenantId, { action, limit: 200 })).data

  const refused = (response: HttpResponse, status = 401, code = 'E_IMPERSONATION_INVALID') => {
    expect(codeOf(response)).toEqual([status, code])
    expect(response.headers['content-type']).toMatch(PROBLEM)
    expect(response.headers['cache-control']).toBe('no-store')
    expect(response.json.requestId).toBe(response.headers['x-request-id'])
    expect(reached).toEqual([])
  }

  return {
    clock,
    /** Log lines since the start of the test. */
    lines,
    /** Calls of the route since the start of the test. */
    reached,
    get made() {
      return made
    },
    get tenancy() {
      return made.tenancy
    },
    get id() {
      return id
    },
    get host() {
      return host
    },
    /** Host of the test, which is closed afterwards. */
    set host(opened: Host) {
      host = opened
    },
    customer,
    admin,
    begin,
    route,
    call,
    entriesOf,
    refused,
  }
}
