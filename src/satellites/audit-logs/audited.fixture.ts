/** A tenancy with an audit log in a separate database, and its admin API. */
import { createHttp, DEFAULT_PREFIX } from '../../http/app.ts'
import { type Actor, enterContext } from '../../kernel/base/context.ts'
import type { Role } from '../../tenancy/tenancy.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { testTenancy } from '../../testing/base/tenancy.ts'
import { type AuditOptions, auditLogs } from './index.ts'

const TOKEN = 'a-token-for-the-tests'
const READER = 'a-token-that-only-reads'

/** @param role `api` runs no jobs, so only the test adds entries */
export async function openAudited(postgresUrl: string, role: Role = 'api', options: AuditOptions = {}) {
  const clock = fakeClock()
  const { tenancy, url, end } = await testTenancy(postgresUrl, { satellites: [auditLogs(options)], role, clock })
  const http = createHttp(tenancy, {
    adminTokens: [
      { name: 'alice', token: TOKEN },
      { name: 'rita', token: READER, scope: 'read' },
    ],
  })
  return {
    tenancy,
    clock,
    url,
    call: (
      method: string,
      path: string,
      { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
    ) =>
      http.fetch(
        new Request(`http://localhost${DEFAULT_PREFIX}${path}`, {
          method,
          headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json', ...headers },
          body: body === undefined ? undefined : JSON.stringify(body),
        }),
        { ip: '192.0.2.7' },
      ),
    as: <T>(actor: Actor, work: () => Promise<T>) => enterContext({ requestId: null, actor, ip: null }, work),
    reader: { 'x-admin-token': READER },
    close: end,
  }
}

export type Audited = Awaited<ReturnType<typeof openAudited>>
