/** Cases of this satellite for coverage.test.ts. Logins are no operations; login.test.ts covers them. */
import type { Part } from '../../../test/contract/row.ts'

const absent = { tenant: 'none' } as const
const deleted = { given: ['DELETE /tenants/{id}'] } as const
const body = { issuer: '{receiver}', clientId: 'tenantry', redirectUri: 'https://app.example/sso/callback' } as const
/** Forbidden even where development allows private networks. */
const FORBIDDEN_URL = 'http://169.254.169.254/latest/meta-data/'

export const part: Part = {
  operations: {
    'sso.get': { success: {}, wrong: { params: { id: 'No Id' } }, also: { E_TENANT_NOT_FOUND: absent } },
    'sso.update': {
      success: { body: { ...body, clientSecret: 'a-secret', enabled: true, enforced: true } },
      wrong: { body: { ...body, enforced: true } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, body },
        E_TENANT_STATE: { ...deleted, body },
        E_SSO_REDIRECT_URI_TAKEN: {
          given: [
            `POST /tenants {"name":"Acme"}`,
            `PUT /tenants/{given}/sso ${JSON.stringify({ ...body, redirectUri: 'https://app.example/sso/callback/{id}' })}`,
          ],
          body: { issuer: '{receiver}/other', redirectUri: 'https://app.example/sso/callback/{id}' },
        },
        E_URL_NOT_ALLOWED: { body: { ...body, issuer: FORBIDDEN_URL } },
      },
    },
    'sso.test': {
      success: { given: [`PUT /tenants/{id}/sso ${JSON.stringify(body)}`] },
      wrong: { body: { issuer: body.issuer } },
      also: { E_TENANT_NOT_FOUND: absent },
    },
    'sso.disable': {
      success: {},
      wrong: { body: { enabled: false } },
      also: { E_TENANT_NOT_FOUND: absent, E_TENANT_STATE: deleted },
    },
  },
  commands: {
    'tenant:sso:show': { line: ['{id}'] },
    'tenant:sso:set': {
      line: [
        '{id}',
        '--issuer',
        '{receiver}',
        '--client-id',
        'tenantry',
        '--client-secret',
        'a-secret',
        '--scope',
        'openid',
      ],
    },
    'tenant:sso:test': { given: [`PUT /tenants/{id}/sso ${JSON.stringify(body)}`], line: ['{id}'] },
    'tenant:sso:disable': { line: ['{id}'] },
  },
}
