import { z } from 'zod'
import { EXPORT_TYPES, exported, wantedFormat } from '../../kernel/api/export-format.ts'
import { Moment, Page, pageOf } from '../../kernel/api/page.ts'
import { defineError, NotFound } from '../../kernel/base/errors.ts'
import { number } from '../../kernel/base/format.ts'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import { part } from '../../kernel/part.ts'
import { isReadable } from '../../kernel/shares/shares.ts'
import { TenantNotFound } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import type { AuditLogs } from './audit-logs.ts'
import { Facets } from './history/facets.ts'
import { TenantAt } from './history/tenant-at.ts'
import { AuditEntry } from './model/entry.ts'
import { Verification } from './verification.ts'

const { operation } = part<AuditLogs>()
const Forbidden = defineError('E_FORBIDDEN', 403, 'Not allowed')

const EXPORTS =
  'With `Accept: application/x-ndjson` or `text/csv` the response is an export: a stream of all items that match the filters, ' +
  'without paging; `limit` and `cursor` have no effect. In CSV, a cell that a spreadsheet could read as a formula starts with ' +
  'an apostrophe, as does a cell that started with an apostrophe: remove one to get the value.'

const filters = {
  from: Moment.optional().meta({ description: 'Inclusive' }),
  to: Moment.optional().meta({ description: 'Exclusive' }),
  action: z
    .string()
    .min(1)
    .max(128)
    .optional()
    .meta({ description: 'Name of an operation', example: 'tenants.suspend' }),
  actor: z.string().min(1).max(256).optional().meta({ description: 'Id or name of the actor, exactly' }),
  target: z
    .string()
    .min(1)
    .max(1_024)
    .optional()
    .meta({ description: 'The changed object, exactly', example: 'featureFlag:new-checkout' }),
  requestId: z.string().min(1).max(128).optional().meta({ description: 'Id of the request, exactly' }),
}

/** Options of commands. */
const period = {
  from: { flags: '--from <moment>', summary: 'RFC 3339 or a date; inclusive' },
  to: { flags: '--to <moment>', summary: 'RFC 3339 or a date; exclusive' },
}

function verified({ ok, checked, unsealed }: z.output<typeof Verification>): string {
  const lines: string[] = []
  if (unsealed > 0) {
    lines.push(`${number(unsealed)} ${unsealed === 1 ? 'entry has no seal yet' : 'entries have no seals yet'}.`)
  }
  if (ok) lines.push(`${checked} ${checked === 1 ? 'entry matches its seal' : 'entries match their seals'}.`)
  return lines.join('\n')
}

export const operations = [
  operation({
    name: 'auditLogs.list',
    method: 'GET',
    path: '/tenants/{id}/audit-logs',
    summary: "List or export a tenant's audit log, the newest entries first",
    description: `Entries outlive the tenant. ${EXPORTS}`,
    params: z.object({ id: TenantId }),
    query: z.strictObject({ ...filters, ...Page.shape }),
    reply: pageOf(AuditEntry),
    streams: EXPORT_TYPES,
    errors: [TenantNotFound],
    handle: async (auditLogs, { params: { id }, query, headers }) => {
      const format = wantedFormat(headers)
      return format
        ? exported(format, `audit-logs-${id}`, await auditLogs.export(id, format, query))
        : auditLogs.list(id, query)
    },
  }),
  operation({
    name: 'auditLogs.listAll',
    method: 'GET',
    path: '/audit-logs',
    summary: 'List or export the audit log of all tenants, the newest entries first',
    description: EXPORTS,
    query: z.strictObject({ tenantId: TenantId.optional(), ...filters, ...Page.shape }),
    reply: pageOf(AuditEntry),
    streams: EXPORT_TYPES,
    command: {
      name: 'tenant:audit:list',
      summary: 'List the audit log of one tenant, or of all, the newest entries first',
      arguments: { tenantId: { name: 'id', summary: 'only this tenant' } },
      options: {
        ...period,
        action: 'name of an operation, such as tenants.suspend',
      },
      rows: ({ data }) =>
        data.map(({ createdAt, tenantId, action, target, actor, outcome }) => {
          return { createdAt, tenantId, action, target, actor: actor.name, outcome }
        }),
    },
    handle: async (auditLogs, { query, headers }) => {
      const format = wantedFormat(headers)
      return format
        ? exported(format, 'audit-logs', await auditLogs.exportAll(format, query))
        : auditLogs.listAll(query)
    },
  }),
  operation({
    name: 'auditLogs.get',
    method: 'GET',
    path: '/audit-entries/{entryId}',
    summary: 'Read one entry of the audit log',
    params: z.object({ entryId: z.uuid().meta({ description: 'Identifier of an audit entry' }) }),
    reply: AuditEntry,
    errors: [NotFound],
    command: {
      name: 'tenant:audit:show',
      summary: 'Show one entry of the audit log',
      arguments: { entryId: { name: 'entry', summary: 'id of the entry' } },
    },
    handle: (auditLogs, { params }) => auditLogs.get(params.entryId),
  }),
  operation({
    name: 'auditLogs.facets',
    method: 'GET',
    path: '/audit-facets',
    summary: 'Count actions, actors and targets of the newest 10,000 entries, the most frequent first',
    description: 'Values for filters of the lists: at most 100 of each.',
    query: z.strictObject({ tenantId: TenantId.optional(), from: filters.from, to: filters.to }),
    reply: Facets,
    command: {
      name: 'tenant:audit:facets',
      summary: 'Count actions, actors and targets of the newest 10,000 audit entries of one tenant, or of all',
      arguments: { tenantId: { name: 'id', summary: 'only this tenant' } },
      options: period,
      rows: ({ actions, actors, targets }) => [
        ...actions.map((one) => ({ facet: 'action', ...one })),
        ...actors.map(({ id, count }) => ({ facet: 'actor', value: id, count })),
        ...targets.map((one) => ({ facet: 'target', ...one })),
      ],
    },
    handle: (auditLogs, { query }) => auditLogs.facets(query),
  }),
  operation({
    name: 'tenants.at',
    method: 'GET',
    path: '/tenants/{id}/at',
    summary: 'Read a tenant and its objects at a time, and the changes since then, from the audit log',
    description:
      'Settings, flags, webhook subscriptions, subscriptions, branding and single sign-on are reconstructed from the states before and ' +
      'after their changes, so the result is as complete as the log: it lacks objects without an entry. Secrets are not in the log. The token must also permit `auditLogs.list`.',
    params: z.object({ id: TenantId }),
    query: z
      .strictObject({
        time: Moment.meta({ description: 'Changes up to this time are included', example: '2026-11-20T09:00:00Z' }),
        until: Moment.optional().meta({ description: 'End of the changes, inclusive; default: now' }),
      })
      .refine(({ time, until }) => until === undefined || until >= time, {
        path: ['until'],
        message: 'must not be before `time`',
      }),
    reply: TenantAt,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:at',
      summary: 'Show a tenant and its objects at a time, from the audit log',
      arguments: { id: 'id of the tenant', time: 'RFC 3339 or a date' },
      options: { until: { flags: '--until <moment>', summary: 'end of the changes; default: now' } },
      rows: ({ tenantId, tenant, objects }) => [
        { target: `tenant:${tenantId}`, state: tenant, changedAt: '', by: '' },
        ...objects.map(({ target, state, lastChange }) => {
          return { target, state, changedAt: lastChange?.createdAt ?? '', by: lastChange?.actor.name ?? '' }
        }),
      ],
      message: ({ plan, changes }) => `plan: ${plan ?? '-'}; changes since then: ${number(changes.length)}`,
    },
    handle: (auditLogs, { params, query }) => {
      if (!isReadable({ operation: 'auditLogs.list' })) throw Forbidden('The token may not call auditLogs.list.')
      return auditLogs.at(params.id, query)
    },
  }),
  operation({
    name: 'auditLogs.verify',
    method: 'GET',
    path: '/audit-logs/verify',
    summary: 'Verify the audit log',
    description:
      'Verifies the chain of one tenant, or of all. Reports the first thousand entries that were changed, removed, inserted or reordered ' +
      'behind the triggers. It reads everything: for many millions of entries, use the command on the database.',
    query: z.strictObject({
      tenantId: TenantId.optional(),
      expect: z
        .string()
        .regex(/^[0-9a-f]{64}$/, 'must be a hash of 64 digits, 0 to 9 and a to f')
        .optional()
        .meta({ description: 'Hash of an entry that was kept elsewhere; the entry must exist' }),
    }),
    reply: Verification,
    extraSeconds: 600,
    errors: [TenantNotFound],
    command: {
      name: 'tenant:audit:verify',
      summary: 'Verify the audit log of one tenant, or of all',
      arguments: { tenantId: { name: 'id', summary: 'only this tenant' } },
      options: { expect: { flags: '--expect <hash>' } },
      progress: 'entries verified',
      rows: ({ broken }) =>
        broken.map(({ tenantId, entryId, reason }) => {
          return { tenant: tenantId ?? '-', entry: entryId ?? '-', reason }
        }),
      message: verified,
      failure: ({ ok, broken }) =>
        ok ? undefined : FindingsStand(`Audit log verification failed: ${broken.length} problems found.`),
    },
    handle: (auditLogs, { query, signal, onProgress }) => auditLogs.verify({ ...query, signal, onProgress }),
  }),
]
