import { z } from 'zod'
import { operation, StreamReply } from '../../kernel/operation.ts'
import { Moment, Page, pageOf } from '../../kernel/page.ts'
import { TenantNotFound } from '../../tenants/errors.ts'
import { TenantId } from '../../tenants/tenant.ts'
import type { AuditLogs } from './audit-logs.ts'
import { AuditEntry } from './entry.ts'
import { type ExportFormat, FORMATS } from './export-format.ts'
import { preferredMediaType } from './media-type.ts'

const FORMAT_OF = { 'application/x-ndjson': 'ndjson', 'text/csv': 'csv' } as const

const EXPORTS =
  'With `Accept: application/x-ndjson` or `text/csv` it is an export instead: everything the filters let through, streamed, ' +
  'whatever `limit` and `cursor` say. In CSV a cell that a spreadsheet might take for a formula begins with an apostrophe, ' +
  'as does one that began with an apostrophe itself: drop one to have the value.'

const filters = {
  from: Moment.optional().meta({ description: 'Inclusive' }),
  to: Moment.optional().meta({ description: 'Exclusive' }),
  action: z
    .string()
    .min(1)
    .max(128)
    .optional()
    .meta({ description: 'Name of an operation', example: 'tenants.suspend' }),
  actor: z.string().min(1).max(256).optional().meta({ description: 'Id or name of who did it, exactly' }),
}

export const operations = [
  operation({
    name: 'auditLogs.list',
    method: 'GET',
    path: '/tenants/{id}/audit-logs',
    summary: "List or export a tenant's audit log, the newest first",
    description: `Entries outlive the tenant. ${EXPORTS}`,
    params: z.object({ id: TenantId }),
    query: z.strictObject({ ...filters, ...Page.shape }),
    reply: pageOf(AuditEntry),
    streams: Object.keys(FORMAT_OF),
    errors: [TenantNotFound],
    handle: async (auditLogs: AuditLogs, { params: { id }, query, headers }) => {
      const format = formatOf(headers)
      return format
        ? exported(format, `audit-logs-${id}`, await auditLogs.export(id, format, query))
        : auditLogs.list(id, query)
    },
  }),
  operation({
    name: 'auditLogs.listAll',
    method: 'GET',
    path: '/audit-logs',
    summary: 'List or export the audit log of all tenants, the newest first',
    description: EXPORTS,
    query: z.strictObject({ tenantId: TenantId.optional(), ...filters, ...Page.shape }),
    reply: pageOf(AuditEntry),
    streams: Object.keys(FORMAT_OF),
    handle: async (auditLogs: AuditLogs, { query, headers }) => {
      const format = formatOf(headers)
      return format
        ? exported(format, 'audit-logs', await auditLogs.exportAll(format, query))
        : auditLogs.listAll(query)
    },
  }),
]

/** Undefined for the JSON page. */
function formatOf(headers: Headers): ExportFormat | undefined {
  const type = preferredMediaType(headers.get('accept'), ['application/json', 'application/x-ndjson', 'text/csv'])
  return type === 'application/json' ? undefined : FORMAT_OF[type]
}

const exported = (format: ExportFormat, name: string, pieces: AsyncIterable<string>): StreamReply =>
  new StreamReply(FORMATS[format].contentType, `${name}.${format}`, pieces)
