/** Cases of this satellite for coverage.test.ts. */
import type { Part } from '../../../test/contract/row.ts'

export const part: Part = {
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
    'auditLogs.listAll': { success: { query: { tenantId: '{id}' } }, wrong: { query: { to: '2026-02-30' } } },
  },
  commands: {
    'tenant:audit:list': { line: ['{id}', '--action', 'tenants.create', '--limit', '1'] },
    'tenant:audit:export': {
      line: ['{id}', '--format', 'csv', '--from', '2026-01-01'],
      json: { line: ['{id}', '--from', '2026-01-01'] },
    },
    'tenant:audit:verify': { line: ['{id}'] },
  },
  jobs: { SealAuditLog: { data: {} }, TrimAuditLog: { data: {} } },
}
