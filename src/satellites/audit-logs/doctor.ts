/** What the doctor says of the audit log. Whether it was tampered with takes longer to find out: tenant:audit:verify. */
import type { Diagnosis, Finding } from '../../kernel/doctor/doctor.ts'
import type { AuditLogs } from './audit-logs.ts'

/** Entries are sealed every minute. */
const LATE_MINUTES = 10
/** Somebody may hold a lock at first. */
const TRIES = 3

export const diagnoses: readonly Diagnosis<AuditLogs>[] = [
  { name: 'auditLogs.seals', summary: 'Whether entries are sealed, and by whose key', examine: examineSeals },
  {
    name: 'auditLogs.months',
    summary: 'Whether there is a place for entries to come',
    examine: examineMonths,
    fix: async ({ months }) =>
      (await months.keep({ maxAttempts: TRIES })).isComplete
        ? 'the months to come have their place'
        : 'somebody has locked the audit log, or detached a month of it: ask again, and see the log of the process',
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
        'See whether a process with the role all or worker runs; what is gone meanwhile tenantry tenant:audit:verify names.',
    }
  }
  if (!canDecrypt) {
    yield {
      severity: 'error',
      code: 'auditLogs.no-key',
      message: 'the key of the seals cannot be opened: nothing can be sealed or verified',
      remedy:
        'Add the application key that it was sealed under to TENANTRY_OLD_APP_KEYS. If none opens it, somebody has altered it.',
    }
  } else if (!isCurrent) {
    yield {
      severity: 'info',
      code: 'auditLogs.old-key',
      message: 'the key of the seals is sealed under a former application key',
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
      'The hourly job TrimAuditLog makes it: see whether a process with the role all or worker runs, or use --fix.',
    fixable: true,
  }
}
