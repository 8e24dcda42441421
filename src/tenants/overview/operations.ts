import { z } from 'zod'
import { Moment, Page, pageOf } from '../../kernel/api/page.ts'
import { part } from '../../kernel/part.ts'
import { ATTENTION_SEVERITIES } from '../../kernel/shares/contributions.ts'
import { TenantNotFound } from '../tenant/errors.ts'
import { HOST_NAME, TenantId } from '../tenant/tenant.ts'
import { AttentionList } from './attention.ts'
import { Explanation } from './explanation.ts'
import { listOperations } from './list-operations.ts'
import type { Overview } from './overview.ts'
import { TimelineEntry } from './timeline.ts'

const { operation } = part<Overview>()

const byId = z.object({ id: TenantId })
/** Argument of commands. */
const tenant = { id: 'id of the tenant' }
const Kind = z.string().min(1).max(64)
const notRead = (failed: readonly string[]): string | undefined =>
  failed.length > 0 ? `Could not be read in time: ${failed.join(', ')}.` : undefined

export const operations = [
  ...listOperations,
  operation({
    name: 'attention.list',
    method: 'GET',
    path: '/attention',
    summary: 'List conditions that an operator should look at, the worst first',
    description:
      'At most 50 entries of a kind; `totals` has the number of all. Each process caches the list for 5 seconds. A kind that cannot be ' +
      'read within a second is named in `failed`, and the others stay. A token reads only entries whose operation it may call.',
    query: z.strictObject({
      kind: Kind.optional().meta({ description: 'Only this kind', example: 'installationFailed' }),
      severity: z.enum(ATTENTION_SEVERITIES).optional().meta({ description: 'Only this severity' }),
      tenantId: TenantId.optional(),
    }),
    reply: AttentionList,
    command: {
      name: 'attention:list',
      options: {
        kind: 'only this kind',
        severity: 'only this severity',
        tenantId: { flags: '--tenant <id>', summary: 'only this tenant' },
      },
      rows: ({ data }) =>
        data.map(({ severity, kind, tenantId, title, since, count }) => {
          return { severity, kind, tenantId, title, since, count }
        }),
      message: ({ failed }) => notRead(failed),
    },
    handle: ({ attention }, { query }) => attention.list(query),
  }),
  operation({
    name: 'tenants.explain',
    method: 'GET',
    path: '/tenants/{id}/explain',
    summary: 'Explain whether requests of a tenant are admitted now, check by check',
    description:
      'Evaluates the rules of the guard in the order of a request, then checks of storage and satellites, and continues after a failed ' +
      'one. `response` is that of the guard. With `host` or `path`, the first check is whether such a request names the tenant.',
    params: byId,
    query: z.strictObject({
      host: z
        .string()
        .max(260)
        .refine((text) => HOST_NAME.test(text.toLowerCase().replace(/:\d{1,5}$/, '')), 'must be a host name')
        .optional()
        .meta({ description: 'Host of the request', example: 'acme.example.com' }),
      path: z
        .string()
        .max(2_048)
        .regex(/^\/[^\s?#]*$/, 'must be a path that starts with a slash, without a query')
        .optional()
        .meta({ description: 'Path of the request', example: '/orders' }),
    }),
    reply: Explanation,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:explain',
      arguments: tenant,
      options: {
        host: { flags: '--host <host>', summary: 'host of the request' },
        path: { flags: '--path <path>', summary: 'path of the request' },
      },
      rows: ({ checks }) =>
        checks.map(({ check, passed, code, since, by, message }) => {
          const result = passed === null ? 'unknown' : passed ? 'passed' : 'failed'
          return { check, result, code, since, by: by?.actor ?? null, message }
        }),
      message: ({ response: { status, code } }) =>
        status === null ? 'The guard admits requests.' : `The guard responds with ${status} ${code}.`,
    },
    handle: ({ explanations }, { params, query }) => explanations.explain(params.id, query),
  }),
  operation({
    name: 'timeline.list',
    method: 'GET',
    path: '/tenants/{id}/timeline',
    summary: 'List what happened to a tenant, the newest first',
    description:
      'Merges changes, transfers and entries of satellites by their time. A kind that cannot be read within a second is named in ' +
      '`failed`, and the others stay. A token reads only kinds whose operation it may call, such as `auditLogs.list` for changes.',
    params: byId,
    query: z.strictObject({
      kind: Kind.optional().meta({ description: 'Only this kind', example: 'change' }),
      from: Moment.optional().meta({ description: 'Inclusive' }),
      to: Moment.optional().meta({ description: 'Exclusive' }),
      ...Page.shape,
    }),
    reply: pageOf(TimelineEntry).extend({
      failed: z
        .array(z.string())
        .meta({ description: 'Kinds that could not be read in time; their entries are missing' }),
    }),
    errors: [TenantNotFound],
    command: {
      name: 'tenant:timeline:list',
      arguments: tenant,
      options: {
        kind: 'only this kind',
        from: { flags: '--from <moment>', summary: 'RFC 3339 or a date; inclusive' },
        to: { flags: '--to <moment>', summary: 'RFC 3339 or a date; exclusive' },
      },
      rows: ({ data }) => data.map(({ at, kind, actor, title }) => ({ at, kind, actor, title })),
      message: ({ failed }) => notRead(failed),
    },
    handle: ({ timelines }, { params, query }) => timelines.list(params.id, query),
  }),
]
