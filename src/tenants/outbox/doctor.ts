/** Diagnosis of the outbox: entries that failed, and entries that wait for long. */
import type { Diagnosis, Finding } from '../../kernel/doctor/doctor.ts'
import type { Outbox } from './outbox.ts'

/** Entries are relayed within a second. */
const LATE_SECONDS = 10 * 60

export const outboxDiagnosis: Diagnosis<Outbox> = {
  name: 'outbox',
  summary: "Calls in tenants' transactions that were not applied",
  examine: (outbox) => findings(outbox),
}

async function* findings(outbox: Outbox): AsyncIterable<Finding> {
  for (const { kind, count, since } of await outbox.failed.byKind()) {
    yield {
      severity: 'warn',
      code: 'outbox.failed',
      message: `${count} ${count === 1 ? 'entry' : 'entries'} of the outbox, ${kind}, could not be applied since ${since.toISOString()}`,
      remedy: 'See their errors with tenantry outbox:list, fix the cause, then run tenantry outbox:retry.',
    }
  }
  for (const { placement, kind, count, since } of await outbox.unknownKinds()) {
    yield {
      severity: 'warn',
      code: 'outbox.unknown-kind',
      message: `${count} ${count === 1 ? 'entry' : 'entries'} of the outbox on the placement ${placement} have waited since ${since.toISOString()}: this process does not know the kind ${kind}`,
      remedy:
        'Start a worker of the release that posted them, or with the satellite that declares the kind. The entries stay until then.',
    }
  }
  for (const [placement, seconds] of await outbox.oldestSeconds()) {
    if (seconds < LATE_SECONDS) continue
    yield {
      severity: 'warn',
      code: 'outbox.waiting',
      message: `entries of the outbox on the placement ${placement} have waited for ${Math.round(seconds / 60)} minutes`,
      remedy:
        'Check that a process with the role all or worker runs, with all satellites of the processes that post, and see its log.',
    }
  }
}
