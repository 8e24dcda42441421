/** Cases of this satellite for coverage.test.ts. */
import type { Part } from '../../../test/contract/row.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import type { metrics } from './index.ts'

const COUNTED = 'counted pages'

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
    'metrics.sums': {
      success: { query: { key: 'pages', by: 'tenant', top: '5' } },
      wrong: { query: { key: 'pages', from: '2020-01-01', to: '2022-01-01' } },
    },
  },
  happenings: {
    [COUNTED]: async ({ api: { tenancy } }, { id = '' }) => {
      const { metrics: counts } = tenancy as unknown as Tenancy<[ReturnType<typeof metrics>]>
      await counts.increment(id, 'pages', 3)
      await counts.flush()
      return {}
    },
  },
  commands: {
    'tenant:metrics:list': { given: [COUNTED], line: ['{id}', '--key', 'pages', '--from', '2026-01-01'] },
    'metrics:list': { given: [COUNTED], line: ['--tenant', '{id}'] },
    'metrics:sums': { given: [COUNTED], line: ['pages', '--tenant', '{id}'] },
    'tenant:metrics:flush': { line: [] },
  },
  jobs: { FlushMetrics: { data: {} } },
}
