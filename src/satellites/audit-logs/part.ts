/** Declarations of audit logs. */
import { part } from '../../kernel/part.ts'
import type { AuditLogs } from './audit-logs.ts'

export const { operation, command, job, on } = part<AuditLogs>()
