import { command } from '../../kernel/commands.ts'
import { invalid } from '../../kernel/errors.ts'
import { Moment } from '../../kernel/page.ts'
import { parsed } from '../../kernel/parsed.ts'
import type { AuditFilter, AuditLogs } from './audit-logs.ts'
import { type ExportFormat, FORMATS } from './export-format.ts'

export const commands = [
  command<AuditLogs>({
    name: 'tenant:audit:export',
    summary: 'Write the audit log of one tenant, or of all, to standard output',
    arguments: [{ name: 'id', summary: 'only this tenant' }],
    options: [
      { flags: '--format <format>', summary: Object.keys(FORMATS).join(' or '), parse: format, default: 'ndjson' },
      { flags: '--from <moment>', summary: 'RFC 3339 or a date; inclusive', parse: moment('from') },
      { flags: '--to <moment>', summary: 'RFC 3339 or a date; exclusive', parse: moment('to') },
    ],
    run: async (auditLogs, { args, options, terminal, signal }) => {
      const filter: AuditFilter = { from: options.from, to: options.to }
      const pieces = args.id
        ? await auditLogs.export(args.id, options.format, filter)
        : await auditLogs.exportAll(options.format, filter)
      for await (const piece of pieces) {
        signal.throwIfAborted()
        await terminal.write(piece)
      }
    },
  }),
]

function format(text: string): ExportFormat {
  if (text === 'ndjson' || text === 'csv') return text
  throw invalid([{ path: 'format', message: `"${text}" is not one of ${Object.keys(FORMATS).join(', ')}` }])
}

function moment(name: string): (text: string) => Date {
  return (text) => parsed(Moment, text, name)
}
