/** Cases of this satellite for coverage.test.ts. */
import type { Part } from '../../../test/contract/row.ts'

const absent = { tenant: 'none' } as const

export const part: Part = {
  operations: {
    'branding.get': { success: {}, wrong: { params: { id: 'No Id' } }, also: { E_TENANT_NOT_FOUND: absent } },
    'branding.update': {
      success: { body: { displayName: 'Acme', primaryColor: '#1a2b3c' } },
      wrong: { body: { primaryColor: 'red' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body: { displayName: 'Acme' } },
        E_TENANT_STATE: { given: ['DELETE /tenants/{id}'], body: { displayName: 'Acme' } },
      },
    },
  },
  commands: {
    'tenant:branding:show': { line: ['{id}'] },
    'tenant:branding:set': { line: ['{id}', '--display-name', 'Acme', '--primary-color', '#1a2b3c'] },
  },
}
