/** Contract cases of reads over all parts. */
import type { Part } from './row.ts'

const absent = { tenant: 'none' } as const

export const overview: Part = {
  operations: {
    'attention.list': {
      success: { query: { tenantId: '{id}' } },
      wrong: { query: { severity: 'low' } },
      needsNoDatabase: true, // kinds that cannot be read are named
    },
    'tenants.explain': {
      success: { query: { host: '{id}.example', path: '/orders' } },
      wrong: { query: { path: 'orders' } },
      also: { E_TENANT_NOT_FOUND: absent },
    },
    'timeline.list': {
      success: { query: { kind: 'transfer' } },
      wrong: { query: { kind: 'weather' } },
      also: { E_TENANT_NOT_FOUND: absent },
    },
  },
  commands: {
    'attention:list': { line: ['--tenant', '{id}'] },
    'tenant:explain': { line: ['{id}', '--path', '/orders'] },
    'tenant:timeline:list': { line: ['{id}', '--limit', '1'] },
  },
}
