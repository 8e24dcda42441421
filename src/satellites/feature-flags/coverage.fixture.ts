/** Cases of this satellite for coverage.test.ts. */
import type { Part } from '../../../test/contract/row.ts'

const absent = { tenant: 'none' } as const
const deleted = { given: ['DELETE /tenants/{id}'] } as const
const params = { key: 'new-checkout' } as const
const body = { enabled: true, rolloutPercent: 25 } as const
const given = ['PUT /tenants/{id}/feature-flags/new-checkout {"enabled":true,"rollout_percent":50}'] as const
/** The first ones of all tenants, which no other case has. */
const FIRST_KEYS = [
  'PUT /tenants/{id}/feature-flags/0-first {"enabled":true}',
  'PUT /tenants/{id}/feature-flags/0-second {"enabled":true}',
] as const
const context = { tenantId: '{id}', targetingKey: 'ann' } as const

export const part: Part = {
  operations: {
    'featureFlags.list': {
      success: { given },
      wrong: { query: { cursor: 'nowhere' } },
      also: { E_TENANT_NOT_FOUND: absent },
    },
    'featureFlags.get': {
      success: { given, params },
      wrong: { params: { key: 'new/checkout' } },
      also: { E_TENANT_NOT_FOUND: { ...absent, params }, E_FLAG_NOT_FOUND: { params } },
    },
    'featureFlags.set': {
      success: { given, params, body },
      wrong: { params, body: { enabled: true, rolloutPercent: 101 } },
      also: {
        201: { params, body },
        E_TENANT_NOT_FOUND: { ...absent, params, body },
        E_TENANT_STATE: { ...deleted, params, body },
      },
    },
    'featureFlags.edit': {
      success: { given, params, body: { rolloutPercent: 25 } },
      wrong: { params, body: { rolloutPercent: 101 } },
      also: {
        201: { params, body },
        E_TENANT_NOT_FOUND: { ...absent, params, body },
        E_TENANT_STATE: { ...deleted, params, body },
      },
    },
    'featureFlags.delete': {
      success: { given, params },
      wrong: { params: { key: 'new/checkout' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, params },
        E_TENANT_STATE: { ...deleted, params },
        E_FLAG_NOT_FOUND: { params },
      },
    },
    'featureFlags.evaluate': {
      success: { given, params, body: { bucketKey: 'ann', attributes: { plan: 'pro' } } },
      wrong: { params, body: { tenantId: '{id}' } },
      needsNoDatabase: true, // an API process has the flags in memory
    },
    'featureFlags.preview': {
      success: { given, params, body: { rolloutPercent: 10, bucketKeys: ['ann', 7] } },
      wrong: { params, body: { rolloutPercent: 10, bucketKeys: [] } },
      also: { E_TENANT_NOT_FOUND: { ...absent, params, body: { bucketKeys: ['ann'] } } },
    },
    'featureFlags.listKeys': { success: { given }, wrong: { query: { limit: '0' } } },
    'featureFlags.listTenants': {
      success: { given, params, query: { enabled: 'true' } },
      wrong: { params, query: { enabled: 'yes' } },
    },
    'ofrep.evaluate': {
      success: { given, params, body: { context } },
      wrong: { params, body: { context: { tenantId: 'No Id' } } },
      also: { E_FLAG_NOT_FOUND: { params, body: { context } } },
    },
    'ofrep.evaluateAll': {
      success: { given, body: { context } },
      wrong: { body: {} },
      also: { 304: { given, body: { context }, headers: { 'if-none-match': '*' } } },
    },
  },
  commands: {
    'tenant:flags:list': { given, line: ['{id}'] },
    'tenant:flags:show': { given, line: ['{id}', 'new-checkout'] },
    'tenant:flags:set': { line: ['{id}', 'new-checkout', '--enabled', '--rollout', '25', '--bucket-key', 'userId'] },
    'tenant:flags:delete': { given, line: ['{id}', 'new-checkout'] },
    'tenant:flags:preview': {
      given,
      line: ['{id}', 'new-checkout', '--rollout', '10', '--bucket-key', 'ann', '--bucket-key', 'bob'],
    },
    'flags:list': { given: FIRST_KEYS, line: ['--limit', '1'] },
    'flags:tenants': {
      given: ['PUT /tenants/{id}/feature-flags/of-one-tenant {"enabled":true}'],
      line: ['of-one-tenant', '--enabled', 'true'],
    },
    'tenant:flags:explain': {
      given,
      line: ['{id}', 'new-checkout', '--bucket-key', 'ann', '--attribute', 'plan=pro', '--attribute', 'seats=5'],
    },
  },
}
