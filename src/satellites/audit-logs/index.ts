import { ChangeRecorded } from '../../kernel/changes.ts'
import { on } from '../../kernel/events.ts'
import { defineSatellite } from '../../satellite.ts'
import { AuditLogs } from './audit-logs.ts'
import { commands } from './commands.ts'
import { operations } from './operations.ts'
import { tables } from './tables.ts'

export type { AuditFilter, AuditFilterOfAll } from './audit-logs.ts'
export type { AuditEntry } from './entry.ts'

export const auditLogs = () =>
  defineSatellite({
    name: 'auditLogs',
    summary: 'Who changed what, when, and in which request; append-only, with exports',
    tables,
    service: (kernel) => new AuditLogs(kernel),
    operations,
    commands,
    listeners: [on(ChangeRecorded, 'within', (auditLogs: AuditLogs, change) => auditLogs.append(change))],
  })

export default auditLogs
