/** Contract cases of bulk jobs. */
import type { Case, Part } from './row.ts'

const START = 'POST /bulk {"operation":"tenants.suspend","tenantIds":["{id}"]}'
const PREDICT = 'POST /bulk {"operation":"tenants.suspend","tenantIds":["{id}"],"dryRun":true}'
const UNKNOWN = { tenant: 'none', params: { bulkId: '00000000-0000-7000-8000-000000000000' } } as const
const given = (line: string): Case => ({ given: [line], params: { bulkId: '{given}' } })
const wrong = { params: { bulkId: 'newest' } }
const plan = { operation: 'tenants.setPlan', tenantIds: ['{id}'], plan: 'constructor' }

export const bulk: Part = {
  operations: {
    'bulk.start': {
      success: { body: { operation: 'tenants.suspend', tenantIds: ['{id}'] } },
      wrong: { body: { operation: 'tenants.suspend' } },
      also: { E_PLAN_NOT_FOUND: { body: plan }, E_PLAN_RESOLVED_BY_HOST: { body: plan, plansOfHost: true } },
    },
    'bulk.list': { success: given(PREDICT), wrong: { query: { limit: '0' } } },
    'bulk.get': { success: given(PREDICT), wrong, also: { E_BULK_NOT_FOUND: UNKNOWN } },
    'bulk.listResults': { success: given(PREDICT), wrong, also: { E_BULK_NOT_FOUND: UNKNOWN } },
    'bulk.cancel': {
      success: given(START),
      wrong,
      also: { E_BULK_NOT_FOUND: UNKNOWN, E_BULK_ENDED: given(PREDICT) },
    },
  },
  commands: {
    'tenant:bulk': { line: ['tenants.enterMaintenance', '--tenant', '{id}', '--message', 'Back at noon'] },
    'tenant:bulk:list': { given: [PREDICT], line: ['--limit', '1'] },
    'tenant:bulk:show': { given: [PREDICT], line: ['{given}'] },
    'tenant:bulk:results': { given: [PREDICT], line: ['{given}', '--state', 'done'] },
    'tenant:bulk:cancel': { given: [START], line: ['{given}'] },
  },
  jobs: {
    RunBulk: { given: [START], data: { bulkId: '{given}' } },
    RecoverBulk: { data: {} },
  },
}
