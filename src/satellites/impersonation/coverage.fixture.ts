/** Cases of this satellite for coverage.test.ts. */
import type { Part } from '../../../test/contract/row.ts'

const absent = { tenant: 'none' } as const
const body = { userId: 'user-42', reason: 'Ticket 4711: exports fail', durationSeconds: 600 } as const
const started = ['POST /tenants/{id}/impersonations {"userId":"user-42","reason":"Ticket 4711"}']

export const part: Part = {
  operations: {
    'impersonations.list': {
      success: { given: started, query: { active: 'true' } },
      wrong: { query: { active: 'yes' } },
      also: { E_TENANT_NOT_FOUND: absent },
    },
    'impersonations.listAll': {
      success: { given: started, query: { tenantId: '{id}', active: 'true' } },
      wrong: { query: { tenant: 'acme' } },
    },
    'impersonations.start': {
      success: { body },
      wrong: { body: { ...body, reason: ' ' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body },
        E_TENANT_STATE: { given: ['DELETE /tenants/{id}'], body },
      },
    },
    'impersonations.end': {
      success: { given: started },
      wrong: { params: { sessionId: 'newest' } },
      also: { E_NOT_FOUND: { params: { sessionId: '00000000-0000-7000-8000-000000000000' } } },
    },
  },
  commands: {
    'tenant:impersonate': { line: ['{id}', 'user-42', '--reason', 'Ticket 4711', '--duration', '60'] },
    'tenant:impersonate:list': { given: started, line: ['{id}', '--active'] },
    'impersonations:list': { given: started, line: ['--tenant', '{id}', '--active'] },
    'tenant:impersonate:end': { given: started, line: ['{sessionId}'] },
  },
}
