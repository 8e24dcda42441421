import { z } from 'zod'
import { Reply } from '../../kernel/api/operation.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { attribute, editsOf, rollout, whyOf } from './command-texts.ts'
import { EvaluationReply, EvaluationRequest } from './evaluation-request.ts'
import type { FlagWritten } from './flag-records.ts'
import { FlagNotFound } from './model/errors.ts'
import { FeatureFlag, FlagBody, FlagEdits, FlagKey, FlagKeyCounts } from './model/flag.ts'
import { operation, resource } from './part.ts'
import { FlagPreview, PreviewRequest } from './preview.ts'

const ofTenant = z.object({ id: TenantId })
const byKey = z.object({ id: TenantId, key: FlagKey })
const tenant = { id: 'id of the tenant' }
const ofFlag = { ...tenant, key: 'key of the flag' }
const flagResource = resource({
  state: FeatureFlag,
  lock: (flags, { id, key }: z.output<typeof byKey>) => flags.lock(id, key),
})

const written = ({ flag, isCreated }: FlagWritten) =>
  isCreated ? new Reply(201, flag, { location: `/tenants/${flag.tenantId}/feature-flags/${flag.key}` }) : flag

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
    command: { name: 'tenant:flags:show', summary: 'Show one flag', arguments: ofFlag },
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
    handle: async (flags, { params: { id, key }, body }) => written(await flags.set(id, key, body)),
  }),
  operation({
    name: 'featureFlags.edit',
    method: 'PATCH',
    path: '/tenants/{id}/feature-flags/{key}',
    summary: 'Create a flag, or change members of it',
    description: 'Absent members keep their values. A new flag is off unless `enabled` is true.',
    params: byKey,
    body: FlagEdits,
    reply: FeatureFlag,
    resource: flagResource,
    alsoStatus: [201],
    errors: [TenantNotFound, TenantState],
    command: {
      name: 'tenant:flags:set',
      summary: 'Create or change a flag; omitted options keep their values',
      arguments: ofFlag,
      options: {
        enabled: 'on, for all contexts or for the percentage',
        disabled: { flags: '--disabled', summary: 'off, for all contexts' },
        rolloutPercent: {
          flags: '--rollout <percent>',
          summary: 'percentage of contexts; none: all contexts',
          parse: rollout,
        },
        bucketKey: {
          flags: '--bucket-key <field>',
          summary: 'field of the context that decides; empty: the bucketKey of the caller',
        },
      },
      body: editsOf,
    },
    handle: async (flags, { params: { id, key }, body }) => written(await flags.edit(id, key, body)),
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
      arguments: ofFlag,
      question: ({ params: { id, key } }) => `Delete the flag ${key} of ${id}?`,
      record: (_, { params: { key } }) => ({ key, deleted: true }),
    },
    handle: (flags, { params }) => flags.delete(params.id, params.key),
  }),
  operation({
    name: 'featureFlags.preview',
    method: 'POST',
    path: '/tenants/{id}/feature-flags/{key}/preview',
    summary: 'Evaluate an unsaved rollout for up to 1,000 values; changes nothing',
    description:
      'For each value: on or off, the reason, its bucket, and the lowest percentage with which the flag is on for it. Absent members ' +
      'of the rollout are those of the present flag. A flag that does not exist is off.',
    params: byKey,
    body: PreviewRequest,
    reply: FlagPreview,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:flags:preview',
      arguments: ofFlag,
      options: {
        bucketKeys: { flags: '--bucket-key <value...>', summary: 'value that decides, such as the id of a user' },
        enabled: 'as if it was on, for all contexts or for the percentage',
        disabled: { flags: '--disabled', summary: 'as if it was off' },
        rolloutPercent: {
          flags: '--rollout <percent>',
          summary: 'percentage of contexts; none: all contexts',
          parse: rollout,
        },
      },
      body: ({ bucketKeys, ...given }) => ({ ...(editsOf(given) as object), bucketKeys }),
      rows: ({ data }) => data,
      message: ({ on, data }) => `on for ${on} of ${data.length}`,
    },
    handle: (flags, { params: { id, key }, body }) => flags.preview(id, key, body),
  }),
  operation({
    name: 'featureFlags.listKeys',
    method: 'GET',
    path: '/feature-flags',
    summary: "List the keys of all tenants' flags, with the number of tenants by state",
    description:
      'The counts of a key that 10,000 tenants or more have are up to 30 s old. ' +
      'With `q`, a page compares 10,000 keys: it may have fewer items than `limit` and a `nextCursor`.',
    query: z.strictObject({
      q: z.string().min(1).max(128).optional().meta({ description: 'Part of a key, in any case', example: 'editor' }),
      ...Page.shape,
    }),
    reply: pageOf(FlagKeyCounts),
    command: { name: 'flags:list', options: { q: { flags: '--q <text>', summary: 'only keys with this part' } } },
    handle: (flags, { query }) => flags.listKeys(query),
  }),
  operation({
    name: 'featureFlags.listTenants',
    method: 'GET',
    path: '/feature-flags/{key}/tenants',
    summary: 'List the flags of all tenants with one key, by tenant',
    description: 'Returns an empty list if no tenant has the flag.',
    params: z.object({ key: FlagKey }),
    query: z.strictObject({
      enabled: z
        .enum(['true', 'false'])
        .transform((text) => text === 'true')
        .optional()
        .meta({ description: '`true`: on, also for a percentage; `false`: off' }),
      ...Page.shape,
    }),
    reply: pageOf(FeatureFlag),
    command: {
      name: 'flags:tenants',
      summary: 'List the tenants that have a flag, and its state',
      arguments: { key: ofFlag.key },
      options: { enabled: { flags: '--enabled <true|false>', summary: 'only tenants for which it is on, or off' } },
      rows: ({ data }) =>
        data.map(({ tenantId, enabled, rolloutPercent, bucketKey, updatedAt }) => {
          return { tenantId, enabled, rolloutPercent, bucketKey, updatedAt }
        }),
    },
    handle: (flags, { params, query }) => flags.listTenants(params.key, query),
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
    command: {
      name: 'tenant:flags:explain',
      summary: 'Evaluate a flag, and show the reason',
      arguments: ofFlag,
      options: {
        bucketKey: { flags: '--bucket-key <value>', summary: 'bucketKey of the caller, such as the id of a user' },
        attributes: {
          flags: '--attribute <name=value...>',
          summary: 'attribute of the context',
          parse: attribute,
        },
      },
      body: ({ attributes = [], ...body }) => ({ ...body, attributes: Object.fromEntries(attributes) }),
      record: (evaluation) => ({ ...evaluation, why: whyOf(evaluation) }),
    },
    handle: (flags, { params: { id, key }, body }) => flags.evaluate(key, { ...body, tenantId: id }),
  }),
]
