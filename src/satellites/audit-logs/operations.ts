import { z } from 'zod'
import { EXPORT_TYPES, exported, wantedFormat } from '../../kernel/api/export-format.ts'
import { Moment, Page, pageOf } from '../../kernel/api/page.ts'
import { number } from '../../kernel/base/format.ts'
import { FindingsStand } from '../../kernel/doctor/doctor.ts'
import { part } from '../../kernel/part.ts'
import { TenantNotFound } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import type { AuditLogs } from './audit-logs.ts'
import { AuditEntry } from './entry.ts'
import { Verification } from './verification.ts'

const { operation } = part<AuditLogs>()

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
        from: { flags: '--from <moment>', summary: 'RFC 3339 or a date; inclusive' },
        to: { flags: '--to <moment>', summary: 'RFC 3339 or a date; exclusive' },
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
