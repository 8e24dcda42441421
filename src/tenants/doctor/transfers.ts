/** What the doctor says of transfers and of backups. */

import { TenancyError } from '../../kernel/base/errors.ts'
import { type Diagnosis, type Examination, type Finding, notExamined } from '../../kernel/doctor/doctor.ts'
import { plainWords } from '../../kernel/resilience/health.ts'
import type { Tenants } from '../tenants.ts'
import type { MissingArchive, TroubledBackups } from '../transfers/doctor-queries.ts'

export const transferDiagnoses: readonly Diagnosis<Tenants>[] = [
  {
    name: 'transfers',
    summary: 'Backups, restores, clones and moves that do not come to an end',
    examine: examineTransfers,
  },
  {
    name: 'backups',
    summary: 'Backups that are missed, and files that are no archive of any',
    examine: examineBackups,
    fix: removeOrphan,
  },
]

async function* examineTransfers({ transfers }: Tenants): AsyncIterable<Finding> {
  for (const { id, tenantId, kind, since } of await transfers.state.stuck()) {
    yield {
      severity: 'warn',
      code: 'transfers.stuck',
      message: `the ${kind} ${id} of "${tenantId}" was begun ${since.toISOString()}, and nobody is at work on it`,
      remedy: `See whether a worker runs, and what its log says: tenantry tenant:queue:stats ${tenantId}`,
      tenantId,
    }
  }
}

async function* examineBackups({ transfers: { state } }: Tenants, { log }: Examination): AsyncIterable<Finding> {
  for await (const troubled of state.troubled()) yield notBackedUp(troubled)
  const unreachable = await state.unreachable()
  if (unreachable > 0) {
    yield {
      severity: 'error',
      code: 'backups.not-configured',
      message: `${unreachable} backups are kept, and no place for backups is configured here`,
      remedy:
        'Configure the place they are in: until then none can be restored, none is removed when its time is over, and no tenant ' +
        'that has some can be purged.',
    }
  }
  const failure = await state.archivesFailure()
  if (failure !== undefined) {
    log.warn({ err: failure }, 'the place of the backups cannot be used')
    yield {
      severity: 'error',
      code: 'backups.unreachable',
      message: `the place of the backups cannot be used: ${
        failure instanceof TenancyError ? failure.message : plainWords(failure)
      }`,
      remedy: 'Nothing can be backed up or restored until it can; the log has the full text.',
    }
    return
  }
  try {
    for await (const found of state.disagreements()) {
      if ('backupId' in found) {
        yield missing(found)
        continue
      }
      const { key, isOurs } = found
      yield {
        severity: isOurs ? 'warn' : 'info',
        code: isOurs ? 'backups.stray-file' : 'backups.unknown-file',
        message: `the file ${key} is the archive of no backup${isOurs ? ': of an attempt that was given up' : ' here'}`,
        remedy: isOurs
          ? 'Remove it with tenantry doctor --fix.'
          : 'It may be another installation’s, or newer than this database: tenantry tenant:backup:adopt makes it a backup again.',
        fixable: isOurs,
        subject: key,
      }
    }
  } catch (error) {
    yield notExamined('Where the backups are kept', error, log)
  }
}

function notBackedUp({ tenantId, everyHours, last, isStale, failed, failureCode }: TroubledBackups): Finding {
  const why = failureCode === null ? '' : ` (${failureCode})`
  const failures = `${failed === 1 ? 'the last attempt has' : `the last ${failed} attempts have`} failed${why}`
  const done = last ? `was last on ${last.toISOString()}` : 'never was'
  return {
    severity: 'warn',
    code: isStale ? 'backups.stale' : 'backups.failing',
    message: isStale
      ? `"${tenantId}" is to be backed up every ${everyHours} h, and ${done}${failed > 0 ? `: ${failures}` : ''}`
      : `the backups of "${tenantId}" fail: ${failures}; it ${done}`,
    remedy: `See why, and make one: tenantry tenant:transfer:list ${tenantId}; tenantry tenant:backup ${tenantId}`,
    tenantId,
  }
}

const missing = ({ key, tenantId, backupId }: MissingArchive): Finding => ({
  severity: 'error',
  code: 'backups.missing-file',
  message: `the backup ${backupId} of "${tenantId}" cannot be restored: its file ${key} is not there`,
  remedy: `Bring the file back, or delete the backup and make another one: tenantry tenant:backup ${tenantId}`,
  tenantId,
})

async function removeOrphan({ transfers: { state } }: Tenants, { subject }: Finding): Promise<string> {
  return (await state.removeOrphan(String(subject))) ? 'it is removed' : 'it was left as it is: it is needed now'
}
