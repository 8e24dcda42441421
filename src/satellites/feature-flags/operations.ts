import { z } from 'zod'
import { Reply } from '../../kernel/api/operation.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { EvaluationReply, EvaluationRequest } from './evaluation-request.ts'
import { FlagNotFound } from './model/errors.ts'
import { FeatureFlag, FlagBody, FlagKey } from './model/flag.ts'
import { operation, resource } from './part.ts'

const ofTenant = z.object({ id: TenantId })
const byKey = z.object({ id: TenantId, key: FlagKey })
const tenant = { id: 'id of the tenant' }
const flagResource = resource({
  state: FeatureFlag,
  lock: (flags, { id, key }: z.output<typeof byKey>) => flags.lock(id, key),
})

export const operations = [
  operation({
    name: 'featureFlags.list',
    method: 'GET',
    path: '/tenants/{id}/feature-flags',
    summary: "List a tenant's flags, by key",
    params: ofTenant,
    query: z.strictObject({ ...Page.shape }),
    reply: pageOf(FeatureFlag),
    errors: [TenantNotFound],
    command: {
      name: 'tenant:flags:list',
      summary: "List a tenant's flags",
      arguments: tenant,
      readsAllPages: true,
      rows: ({ data }) =>
        data.map(({ key, enabled, rolloutPercent, bucketKey, updatedAt }) => {
          return { key, enabled, rolloutPercent, bucketKey, updatedAt }
        }),
    },
    handle: (flags, { params, query }) => flags.list(params.id, query),
  }),
  operation({
    name: 'featureFlags.get',
    method: 'GET',
    path: '/tenants/{id}/feature-flags/{key}',
    summary: 'Read one flag',
    params: byKey,
    reply: FeatureFlag,
    resource: flagResource,
    errors: [TenantNotFound, FlagNotFound],
    handle: (flags, { params }) => flags.get(params.id, params.key),
  }),
  operation({
    name: 'featureFlags.set',
    method: 'PUT',
    path: '/tenants/{id}/feature-flags/{key}',
    summary: 'Create or set a flag',
    description:
      'Complete state: an absent member becomes null. A flag with a percentage is on for that share of the values of ' +
      "its `bucketKey` field, otherwise of the caller's bucketKey, otherwise of tenants. The result of a value is stable.",
    params: byKey,
    body: FlagBody,
    reply: FeatureFlag,
    resource: flagResource,
    alsoStatus: [201],
    errors: [TenantNotFound, TenantState],
    handle: async (flags, { params: { id, key }, body }) => {
      const { flag, isCreated } = await flags.set(id, key, body)
      return isCreated ? new Reply(201, flag, { location: `/tenants/${id}/feature-flags/${key}` }) : flag
    },
  }),
  operation({
    name: 'featureFlags.delete',
    method: 'DELETE',
    path: '/tenants/{id}/feature-flags/{key}',
    summary: 'Delete a flag',
    params: byKey,
    reply: z.void(),
    resource: flagResource,
    errors: [TenantNotFound, TenantState, FlagNotFound],
    command: {
      name: 'tenant:flags:delete',
      summary: 'Delete a flag; it evaluates to off',
      arguments: { ...tenant, key: 'key of the flag' },
      question: ({ params: { id, key } }) => `Delete the flag ${key} of ${id}?`,
      record: (_, { params: { key } }) => ({ key, deleted: true }),
    },
    handle: (flags, { params }) => flags.delete(params.id, params.key),
  }),
  operation({
    name: 'featureFlags.evaluate',
    method: 'POST',
    path: '/tenants/{id}/feature-flags/{key}/evaluate',
    summary: 'Evaluate a flag, with the reason',
    description:
      'An unknown flag or tenant is off, as `FLAG_NOT_FOUND`. While the database is unavailable, the response is the last known value ' +
      '(`STALE`), or off (`ERROR`), unless the policy is `fail-closed`.',
    params: byKey,
    body: EvaluationRequest,
    bodyOptional: true,
    reply: EvaluationReply,
    scope: 'runtime',
    handle: (flags, { params: { id, key }, body }) => flags.explain(key, { ...body, tenantId: id }),
  }),
]
