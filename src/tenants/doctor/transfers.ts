/** Diagnoses of transfers and backups. */

import { TenancyError } from '../../kernel/base/errors.ts'
import { type Diagnosis, type Examination, type Finding, notExamined } from '../../kernel/doctor/doctor.ts'
import { formatHealthError } from '../../kernel/resilience/health.ts'
import type { Tenants } from '../tenants.ts'
import type { MissingArchive, TroubledBackups } from '../transfers/doctor-queries.ts'

export const transferDiagnoses: readonly Diagnosis<Tenants>[] = [
  {
    name: 'transfers',
    summary: 'Stuck backups, restores, clones and moves',
    examine: examineTransfers,
  },
  {
    name: 'backups',
    summary: 'Missed or failing backups, and orphaned or missing files',
    examine: examineBackups,
    fix: removeOrphan,
  },
]

async function* examineTransfers({ transfers }: Tenants): AsyncIterable<Finding> {
  for (const { id, tenantId, kind, since } of await transfers.state.stuck()) {
    yield {
      severity: 'warn',
      code: 'transfers.stuck',
      message: `the ${kind} ${id} of tenant "${tenantId}" was started ${since.toISOString()}, and no worker is active on it`,
      remedy: `Check whether a worker runs, and check its log: tenantry tenant:queue:stats ${tenantId}`,
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
      message: `${unreachable} backups exist, but this process has no backup storage configured`,
      remedy:
        'Configure their backup storage. Before that, they can be neither restored nor removed at the end of their retention, and no tenant ' +
        'with backups can be purged.',
    }
  }
  const failure = await state.archivesFailure()
  if (failure !== undefined) {
    log.warn({ err: failure }, 'the backup storage cannot be used')
    yield {
      severity: 'error',
      code: 'backups.unreachable',
      message: `the backup storage cannot be used: ${
        failure instanceof TenancyError ? failure.message : formatHealthError(failure)
      }`,
      remedy: 'Backups and restores fail until it is usable. See the log for the full error.',
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
        message: `the file ${key} belongs to no backup${isOurs ? ', but to a failed attempt' : ' of this database'}`,
        remedy: isOurs
          ? 'Remove it with tenantry doctor --fix.'
          : 'It may belong to another installation, or be newer than this database. To register it as a backup: tenantry tenant:backup:adopt.',
        fixable: isOurs,
        subject: key,
      }
    }
  } catch (error) {
    yield notExamined('The backup storage', error, log)
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
      ? `tenant "${tenantId}" is to be backed up every ${everyHours} h, and ${done}${failed > 0 ? `: ${failures}` : ''}`
      : `the backups of tenant "${tenantId}" fail: ${failures}; it ${done}`,
    remedy: `See the cause, and create a backup: tenantry tenant:transfer:list ${tenantId}; tenantry tenant:backup ${tenantId}`,
    tenantId,
  }
}

const missing = ({ key, tenantId, backupId }: MissingArchive): Finding => ({
  severity: 'error',
  code: 'backups.missing-file',
  message: `backup ${backupId} of tenant "${tenantId}" cannot be restored: its file ${key} is missing`,
  remedy: `Restore the file, or delete the backup and create another one: tenantry tenant:backup ${tenantId}`,
  tenantId,
})

async function removeOrphan({ transfers: { state } }: Tenants, { subject }: Finding): Promise<string> {
  return (await state.removeOrphan(String(subject))) ? 'removed' : 'left unchanged: the file is in use now'
}
