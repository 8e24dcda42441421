import { z } from 'zod'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import { UrlNotAllowed } from '../../kernel/egress/egress.ts'
import { part } from '../../kernel/part.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { ConnectionReport } from './connection-test.ts'
import { SsoRedirectUriTaken } from './errors.ts'
import { SsoRequest, SsoSettings } from './settings.ts'
import type { Sso } from './sso.ts'

const { operation, resource } = part<Sso>()

const byId = z.object({ id: TenantId })
const tenant = { id: 'id of the tenant' }
const ssoResource = resource({
  state: SsoSettings,
  lock: (sso, { id }: z.output<typeof byId>) => sso.records.lock(id),
})
const Nothing = z.strictObject({})

export const operations = [
  operation({
    name: 'sso.get',
    method: 'GET',
    path: '/tenants/{id}/sso',
    summary: "Read a tenant's settings of single sign-on, without the secret; null and disabled by default",
    params: byId,
    reply: SsoSettings,
    resource: ssoResource,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:sso:show',
      summary: "Show a tenant's settings of single sign-on, without the secret",
      arguments: tenant,
    },
    handle: (sso, { params }) => sso.get(params.id),
  }),
  operation({
    name: 'sso.update',
    method: 'PUT',
    path: '/tenants/{id}/sso',
    summary: "Set a tenant's settings of single sign-on",
    description:
      'Complete state, except `clientSecret`: absent, it stays; null removes it, and so does the absence of `issuer` or `clientId`; another one of these requires ' +
      'it again. The path of `redirectUri` must not belong to a tenant with another `issuer`. Logins in progress fail.',
    params: byId,
    body: SsoRequest,
    reply: SsoSettings,
    resource: ssoResource,
    errors: [TenantNotFound, TenantState, SsoRedirectUriTaken, UrlNotAllowed],
    command: {
      name: 'tenant:sso:set',
      summary: "Set a tenant's settings of single sign-on; an option that is not given removes its value",
      arguments: tenant,
      options: {
        issuer: { flags: '--issuer <url>', summary: 'exactly as in the discovery document of the provider' },
        clientId: { flags: '--client-id <id>' },
        clientSecret: {
          flags: '--client-secret <secret>',
          summary: 'default: the stored one; an empty one removes it (public client with PKCE)',
          isSecret: true,
        },
        scopes: { flags: '--scope <scope...>', summary: 'scope; default: openid, email and profile' },
        redirectUri: { flags: '--redirect-uri <url>', summary: 'your callback, as registered at the provider' },
        allowedDomains: { flags: '--allowed-domain <domain...>', summary: 'domain of verified mail addresses' },
        enabled: 'enable single sign-on',
        enforced: 'all users of the tenant must use it',
      },
      body: ({ clientSecret, ...body }) =>
        clientSecret === undefined ? body : { ...body, clientSecret: clientSecret || null },
    },
    handle: (sso, { params, body }) => sso.update(params.id, body),
  }),
  operation({
    name: 'sso.test',
    method: 'POST',
    path: '/tenants/{id}/sso/test',
    summary: 'Test the connection to the identity provider, enabled or not',
    description:
      'Reads the discovery document and the keys, and reports each requirement of a login. Only a login shows whether client, ' +
      'secret and redirect URI are registered.',
    params: byId,
    body: Nothing,
    bodyOptional: true,
    reply: ConnectionReport,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:sso:test',
      arguments: tenant,
      rows: ({ checks }) => checks,
      failure: ({ ok }) =>
        ok ? undefined : FindingsStand('The test of single sign-on found problems. See its checks.'),
    },
    handle: (sso, { params }) => sso.test(params.id),
  }),
  operation({
    name: 'sso.disable',
    method: 'POST',
    path: '/tenants/{id}/sso/disable',
    summary: 'Disable single sign-on and its enforcement; other settings stay',
    params: byId,
    body: Nothing,
    bodyOptional: true,
    reply: SsoSettings,
    errors: [TenantNotFound, TenantState],
    command: { name: 'tenant:sso:disable', arguments: tenant },
    handle: (sso, { params }) => sso.disable(params.id),
  }),
]
