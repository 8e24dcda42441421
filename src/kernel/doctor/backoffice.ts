/** Diagnoses the backoffice database: whether it can store data. */

import { type Database, sqlState } from '../database/database.ts'
import { assertWritable } from '../database/write-probe.ts'
import type { Diagnosis, Finding } from './doctor.ts'

const EFFECT = 'changes respond with 503, and jobs wait; reads continue'

const FINDINGS: Readonly<Record<string, Finding>> = {
  '25006': {
    severity: 'error',
    code: 'backoffice.read-only',
    message: `the backoffice database is read-only: ${EFFECT}`,
    remedy:
      'Check whether its server is a standby, and default_transaction_read_only of server, database and role: hosted servers set it on a ' +
      'full disk. No restart is needed afterwards.',
  },
  '53100': {
    severity: 'error',
    code: 'backoffice.disk-full',
    message: `the disk of the backoffice database is full: ${EFFECT}`,
    remedy: 'Free or add disk space at its server. Waiting installations and jobs then continue without a restart.',
  },
}

export const backofficeDiagnosis: Diagnosis<{ readonly database: Database }> = {
  name: 'backoffice',
  summary: 'A read-only or full backoffice database',
  async *examine({ database }) {
    try {
      await assertWritable(database)
    } catch (error) {
      const finding = FINDINGS[sqlState(error) ?? '']
      if (!finding) throw error
      yield finding
    }
  },
}
