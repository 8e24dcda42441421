/** Cases of this satellite for coverage.test.ts. */
import type { Part } from '../../../test/contract/row.ts'

export const part: Part = {
  operations: {
    'metrics.list': {
      success: { query: { key: 'requests', from: '2026-01-01' } },
      wrong: { query: { key: 'no key' } },
      also: { E_TENANT_NOT_FOUND: { tenant: 'none' } },
    },
    'metrics.listAll': {
      success: { query: { tenantId: '{id}' } },
      wrong: { query: { from: 'yesterday' } },
    },
  },
  commands: { 'tenant:metrics:flush': { line: [] } },
  jobs: { FlushMetrics: { data: {} } },
}
