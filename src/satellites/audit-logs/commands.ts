import { EXPORT_FORMATS, exportFormat } from '../../kernel/api/export-format.ts'
import { Moment } from '../../kernel/api/page.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { size } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { part } from '../../kernel/part.ts'
import type { AuditFilter, AuditLogs } from './audit-logs.ts'

const { command } = part<AuditLogs>()

export const commands = [
  command({
    name: 'tenant:audit:export',
    summary: 'Export the audit log of one tenant, or of all, to standard output',
    arguments: [{ name: 'id', summary: 'only this tenant' }],
    options: [
      { flags: '--format <format>', summary: EXPORT_FORMATS.join(' or '), parse: exportFormat, default: 'ndjson' },
      { flags: '--from <moment>', summary: 'RFC 3339 or a date; inclusive', parse: moment('from') },
      { flags: '--to <moment>', summary: 'RFC 3339 or a date; exclusive', parse: moment('to') },
    ],
    run: async (auditLogs, { args, options, terminal, signal }) => {
      if (terminal.isJson && options.format !== 'ndjson') {
        throw invalid([
          { path: 'format', message: `The format ${options.format} is not JSON: omit --json, or use ndjson.` },
        ])
      }
      const filter: AuditFilter = { from: options.from, to: options.to }
      const pieces = args.id
        ? await auditLogs.export(args.id, options.format, filter)
        : await auditLogs.exportAll(options.format, filter)
      const look = meter()
      let bytes = 0
      for await (const piece of pieces) {
        signal.throwIfAborted()
        await terminal.write(piece)
        bytes += Buffer.byteLength(piece)
        terminal.progress(`${size(bytes)} written${paceText(look(bytes), size)}`)
      }
    },
  }),
]

function moment(name: string): (text: string) => Date {
  return (text) => parsed(Moment, text, name)
}
