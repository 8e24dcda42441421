import { z } from 'zod'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { NotFound } from '../../kernel/base/errors.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { operation } from './part.ts'
import { Impersonation, ImpersonationWithToken } from './resource.ts'
import { NewImpersonation } from './settings.ts'

const ofTenant = z.object({ id: TenantId })
const tenant = { id: 'id of the tenant' }
const filters = {
  active: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .optional()
    .meta({ description: '`true`: active ones; `false`: ended or expired ones' }),
}

const rowOf = ({
  sessionId,
  userId,
  actor,
  reason,
  createdAt,
  expiresAt,
  endedAt,
}: Omit<Impersonation, 'tenantId'>) => {
  return { sessionId, userId, actor: actor.name, reason, createdAt, expiresAt, endedAt }
}

export const operations = [
  operation({
    name: 'impersonations.list',
    method: 'GET',
    path: '/tenants/{id}/impersonations',
    summary: "List a tenant's impersonations, the newest first",
    params: ofTenant,
    query: z.strictObject({ ...filters, ...Page.shape }),
    reply: pageOf(Impersonation),
    errors: [TenantNotFound],
    command: {
      name: 'tenant:impersonate:list',
      arguments: tenant,
      options: { active: 'only active ones' },
      readsAllPages: true,
      rows: ({ data }) => data.map(rowOf),
    },
    handle: (impersonations, { params, query }) => impersonations.list(params.id, query),
  }),
  operation({
    name: 'impersonations.listAll',
    method: 'GET',
    path: '/impersonations',
    summary: 'List the impersonations of all tenants, the newest first',
    query: z.strictObject({ tenantId: TenantId.optional(), ...filters, ...Page.shape }),
    reply: pageOf(Impersonation),
    command: {
      name: 'impersonations:list',
      options: { tenantId: { flags: '--tenant <id>', summary: 'only this tenant' }, active: 'only active ones' },
      rows: ({ data }) => data.map(({ tenantId, ...session }) => ({ tenantId, ...rowOf(session) })),
    },
    handle: (impersonations, { query }) => impersonations.listAll(query),
  }),
  operation({
    name: 'impersonations.start',
    changesOutside: true,
    method: 'POST',
    path: '/tenants/{id}/impersonations',
    summary: "Begin to act in the name of a tenant's user",
    description:
      'The token is returned once. Requests to the host carry it; each of them is recorded in the audit log, with both actors. ' +
      'Tenantry does not know users: the host checks whether the user exists.',
    params: ofTenant,
    body: NewImpersonation,
    reply: ImpersonationWithToken.partial({ token: true }),
    shownOnce: ['token'],
    status: 201,
    errors: [TenantNotFound, TenantState],
    command: {
      name: 'tenant:impersonate',
      summary: "Begin to act in the name of a tenant's user; prints the token, this once",
      arguments: { ...tenant, userId: "the host's id of the user" },
      options: {
        reason: { flags: '--reason <text>' },
        durationSeconds: { flags: '--duration <seconds>', summary: 'at most 3600; default 900' },
      },
    },
    handle: (impersonations, { params, body }) => impersonations.start(params.id, body),
  }),
  operation({
    name: 'impersonations.end',
    changesOutside: true,
    method: 'DELETE',
    path: '/impersonations/{sessionId}',
    summary: 'End an impersonation',
    description: 'The next request with its token is rejected. An expired or ended impersonation stays unchanged.',
    params: z.object({ sessionId: z.uuid().meta({ description: 'Identifier of an impersonation' }) }),
    reply: z.void(),
    errors: [NotFound],
    command: {
      name: 'tenant:impersonate:end',
      summary: 'End an impersonation; its next request is rejected',
      arguments: { sessionId: 'id of the impersonation' },
      record: (_, { params: { sessionId } }) => ({ sessionId, ended: true }),
    },
    handle: async (impersonations, { params }) => {
      await impersonations.end(params.sessionId)
    },
  }),
]
