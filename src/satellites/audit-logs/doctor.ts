/** Diagnoses of the audit log: sealing and partitions. `tenant:audit:verify` detects tampering, which takes longer. */
import type { Diagnosis, Finding } from '../../kernel/doctor/doctor.ts'
import type { AuditLogs } from './audit-logs.ts'

/** Entries are sealed every minute. */
const LATE_MINUTES = 10
/** A concurrent transaction may hold a lock for a moment. */
const TRIES = 3

export const diagnoses: readonly Diagnosis<AuditLogs>[] = [
  { name: 'auditLogs.seals', summary: 'Sealing of entries, and encryption of the seal key', examine: examineSeals },
  {
    name: 'auditLogs.months',
    summary: 'Partitions for future entries',
    examine: examineMonths,
    fix: async ({ months }) =>
      (await months.keep({ maxAttempts: TRIES })).isComplete
        ? 'all partitions exist'
        : 'the audit log is locked, or one of its months is detached: try again, and see the log of the process',
  },
]

async function* examineSeals(auditLogs: AuditLogs): AsyncIterable<Finding> {
  const { waiting, since, isCurrent, canDecrypt } = await auditLogs.sealing(LATE_MINUTES)
  if (waiting > 0) {
    yield {
      severity: 'warn',
      code: 'auditLogs.unsealed',
      message: `${waiting} ${waiting === 1 ? 'entry waits' : 'entries wait'} for a seal since ${since?.toISOString()}`,
      remedy:
        'Check that a process with the role all or worker runs. To find entries that were removed before, run tenantry tenant:audit:verify.',
    }
  }
  if (!canDecrypt) {
    yield {
      severity: 'error',
      code: 'auditLogs.no-key',
      message: 'the seal key cannot be decrypted: entries cannot be sealed or verified',
      remedy:
        'Add the former application key to TENANTRY_OLD_APP_KEYS. If no key decrypts it, the stored seal key was altered.',
    }
  } else if (!isCurrent) {
    yield {
      severity: 'info',
      code: 'auditLogs.old-key',
      message: 'the seal key is encrypted with a former application key',
      remedy: 'tenantry tenant:secrets:reencrypt',
    }
  }
}

async function* examineMonths({ months }: AuditLogs): AsyncIterable<Finding> {
  const missing = await months.missing()
  if (missing.length === 0) return
  yield {
    severity: 'warn',
    code: 'auditLogs.months',
    message: `entries of ${missing.map((month) => month.toISOString().slice(0, 7)).join(', ')} have no partition`,
    remedy:
      'The hourly job TrimAuditLog creates it. Check that a process with the role all or worker runs, or use --fix.',
    fixable: true,
  }
}
