import { z } from 'zod'
import { operation } from '../../kernel/api/operation.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { NotFound } from '../../kernel/base/errors.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import type { Impersonations } from './impersonation.ts'
import { Impersonation, ImpersonationWithToken } from './resource.ts'
import { NewImpersonation } from './settings.ts'

const ofTenant = z.object({ id: TenantId })
const flag = z.enum(['true', 'false']).transform((text) => text === 'true')

export const operations = [
  operation({
    name: 'impersonations.list',
    method: 'GET',
    path: '/tenants/{id}/impersonations',
    summary: "List a tenant's impersonations, the newest first",
    params: ofTenant,
    query: z.strictObject({
      active: flag.optional().meta({ description: '`true`: those that are on; `false`: those that are over' }),
      ...Page.shape,
    }),
    reply: pageOf(Impersonation),
    errors: [TenantNotFound],
    handle: (impersonations: Impersonations, { params, query }) => impersonations.list(params.id, query),
  }),
  operation({
    name: 'impersonations.start',
    method: 'POST',
    path: '/tenants/{id}/impersonations',
    summary: "Begin to act in the name of a tenant's user",
    description:
      'The token is answered this once. At the host, its requests carry it; each of them stands in the audit log, with both actors. ' +
      'Tenantry does not know users: whether there is one of that id is for the host to see.',
    params: ofTenant,
    body: NewImpersonation,
    reply: ImpersonationWithToken.partial({ token: true }),
    shownOnce: ['token'],
    status: 201,
    errors: [TenantNotFound, TenantState],
    handle: (impersonations: Impersonations, { params, body }) => impersonations.start(params.id, body),
  }),
  operation({
    name: 'impersonations.end',
    method: 'DELETE',
    path: '/impersonations/{sessionId}',
    summary: 'End an impersonation',
    description: 'The next request with its token is refused. One that is over stays as it is.',
    params: z.object({ sessionId: z.uuid().meta({ description: 'Identifier of an impersonation' }) }),
    reply: z.void(),
    errors: [NotFound],
    handle: async (impersonations: Impersonations, { params }) => {
      await impersonations.end(params.sessionId)
    },
  }),
]
