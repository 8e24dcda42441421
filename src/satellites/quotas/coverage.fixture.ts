/** Cases of this satellite for coverage.test.ts. */
import type { Part } from '../../../test/contract/row.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import type { quotas } from './index.ts'

const absent = { tenant: 'none' } as const
const deleted = { given: ['DELETE /tenants/{id}'] }
const one = { params: { quota: 'exports' } }
/** The limit of the plan, minus one. */
const nearlyAll = ['POST /tenants/{id}/quotas/exports/track {"amount":9}']

const RANKED = 'exports far above the limit'

export const part: Part = {
  operations: {
    'quotas.get': {
      success: {},
      wrong: { params: { id: 'No Id' } },
      also: { E_TENANT_NOT_FOUND: absent },
    },
    'quotas.top': { success: { query: { quota: 'exports' } }, wrong: { query: { above: '0.1' } } },
    'quotas.setUsage': {
      success: { body: { quota: 'exports', value: 9.5 } },
      wrong: { body: { quota: 'exports', value: -1 } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: { quota: 'exports', value: 1 } },
        E_TENANT_STATE: { ...deleted, body: { quota: 'exports', value: 1 } },
      },
    },
    'quotas.reset': {
      success: { given: nearlyAll, body: { quota: 'exports' } },
      wrong: { body: { quota: 'no name' } },
      also: {
        E_TENANT_NOT_FOUND: absent,
        E_TENANT_STATE: deleted,
        E_QUOTA_NOT_FOUND: { body: { quota: 'exprots' } },
      },
    },
    'quotas.consume': {
      success: one,
      wrong: { ...one, body: { amount: -1 } },
      also: {
        E_TENANT_NOT_FOUND: { ...one, ...absent },
        E_TENANT_QUOTA_EXCEEDED: { ...one, given: nearlyAll, body: { amount: 2 } },
      },
    },
    'quotas.consumeAll': {
      success: { body: { quotas: [{ quota: 'exports', amount: 2 }, { quota: 'pages' }] } },
      wrong: { body: { quotas: [] } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: { quotas: [{ quota: 'exports' }] } },
        E_TENANT_QUOTA_EXCEEDED: { given: nearlyAll, body: { quotas: [{ quota: 'exports', amount: 2 }] } },
      },
    },
    'quotas.track': {
      success: { ...one, body: { amount: 5 } },
      wrong: { ...one, body: { amount: 0.5 } },
      also: { E_TENANT_NOT_FOUND: { ...one, ...absent } },
    },
    'quotas.check': {
      success: { ...one, query: { amount: '3' } },
      wrong: { ...one, query: { amount: '0x10' } },
      also: { E_TENANT_NOT_FOUND: { ...one, ...absent } },
    },
  },
  happenings: {
    [RANKED]: async ({ api: { tenancy } }, { id = '' }) => {
      const { quotas: counted } = tenancy as unknown as Tenancy<[ReturnType<typeof quotas>]>
      await counted.track(id, 'exports', 1_000)
      await counted.usageRecords.write()
      return {}
    },
  },
  commands: {
    'quotas:top': { given: [RANKED], line: ['--quota', 'exports', '--above', '1.5', '--limit', '1'] },
    'tenant:quotas:show': { line: ['{id}'] },
    'tenant:quotas:set': { line: ['{id}', 'exports', '2.5'] },
    'tenant:quotas:reset': { line: ['{id}', 'exports'] },
    'tenant:quotas:consume': { line: ['{id}', 'exports', '--amount', '2'] },
    'tenant:quotas:track': { line: ['{id}', 'exports'] },
    'tenant:quotas:check': { line: ['{id}', 'exports', '--amount', '3'] },
  },
}
