/** Cases of this satellite for coverage.test.ts. */
import type { Part } from '../../../test/contract/row.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import type { auditLogs } from './index.ts'

/** The audit entry of the tenant's creation. */
const RECORDED = 'recorded in the audit log'
/** The changes of a case are before it. */
const TOMORROW = '2100-01-01'

export const part: Part = {
  happenings: {
    [RECORDED]: async ({ api: { tenancy } }, { id = '' }) => {
      const { auditLogs: logs } = tenancy as unknown as Tenancy<[ReturnType<typeof auditLogs>]>
      const { data } = await logs.list(id, { action: 'tenants.create' })
      return { entryId: data[0]?.id ?? '' }
    },
  },
  operations: {
    'auditLogs.list': {
      success: { query: { action: 'tenants.create' } },
      wrong: { query: { from: 'yesterday' } },
      also: { E_TENANT_NOT_FOUND: { tenant: 'none' } },
    },
    'auditLogs.verify': {
      success: { query: { tenantId: '{id}' } },
      wrong: { query: { expect: 'no hash' } },
      also: { E_TENANT_NOT_FOUND: { query: { tenantId: 'unknown' } } },
    },
    'auditLogs.get': {
      success: { given: [RECORDED] },
      wrong: { params: { entryId: 'newest' } },
      also: { E_NOT_FOUND: { params: { entryId: '00000000-0000-7000-8000-000000000000' } } },
    },
    'auditLogs.facets': { success: { query: { tenantId: '{id}' } }, wrong: { query: { action: 'tenants.create' } } },
    'tenants.at': {
      success: { query: { time: '2026-01-01' } },
      wrong: { query: { time: '2026-02-01', until: '2026-01-01' } },
      also: { E_TENANT_NOT_FOUND: { tenant: 'none', query: { time: '2026-01-01' } } },
    },
    'auditLogs.listAll': { success: { query: { tenantId: '{id}' } }, wrong: { query: { to: '2026-02-30' } } },
  },
  commands: {
    'tenant:audit:list': { line: ['{id}', '--action', 'tenants.create', '--limit', '1'] },
    'tenant:audit:show': { given: [RECORDED], line: ['{entryId}'] },
    'tenant:audit:facets': { line: ['{id}', '--from', '2026-01-01'] },
    'tenant:at': { line: ['{id}', TOMORROW] },
    'tenant:audit:export': {
      line: ['{id}', '--format', 'csv', '--from', '2026-01-01'],
      json: { line: ['{id}', '--from', '2026-01-01'] },
    },
    'tenant:audit:verify': { line: ['{id}'] },
  },
  jobs: { SealAuditLog: { data: {} }, TrimAuditLog: { data: {} } },
}
