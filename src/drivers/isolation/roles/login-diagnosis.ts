/**
 * Diagnosis of the logins of tenants' queries: each server must accept the stored password, with unchanged defaults.
 */

import { forEachConcurrent } from '../../../kernel/base/concurrency.ts'
import type { Logger } from '../../../kernel/base/logger.ts'
import { type Diagnosis, type Examination, type Finding, notExamined } from '../../../kernel/doctor/doctor.ts'
import type { LoginRepair } from './login-repair.ts'
import { isFaulty } from './login-state.ts'

const MAX_CONCURRENT = 4
const REMEDY =
  'Restore it with tenantry doctor --fix. A start and a rejected connection restore it automatically, too. SQL of a tenant may have ' +
  'changed it: see docs/security.md.'

export const loginDiagnosis: Diagnosis<LoginRepair> = {
  name: 'logins',
  summary: "Logins of tenants' queries whose password or defaults were changed",
  examine: examineLogins,
  async fix(logins, { subject }) {
    const { placement, database } = subject as Subject
    const faults = await logins.restore(placement, database)
    return faults && isFaulty(faults)
      ? 'it was restored'
      : 'it had been restored already: together with the password, or by another process'
  },
}

interface Subject {
  readonly placement: string
  /** Set for a login that belongs to one tenant. */
  readonly database?: string
}

async function* examineLogins(logins: LoginRepair, { log }: Examination): AsyncIterable<Finding> {
  for (const placement of logins.placements) {
    yield* await examined(logins, { placement }, log)
    const found: Finding[][] = []
    await forEachConcurrent(await logins.owned(placement), MAX_CONCURRENT, async (database, index) => {
      found[index] = await examined(logins, { placement, database }, log)
    })
    yield* found.flat()
  }
}

async function examined(logins: LoginRepair, subject: Subject, log: Logger): Promise<Finding[]> {
  const { placement, database } = subject
  try {
    const faults = await logins.examine(placement, database)
    if (!faults) return []
    const { login, passwordChanged, settings } = faults
    const finding = { severity: 'error', remedy: REMEDY, fixable: true, subject } as const
    const password = {
      ...finding,
      code: 'logins.password',
      message: `${placement}: the password of "${login}" was changed`,
    }
    const others = `${placement}: the defaults of "${login}" were changed: ${settings.join(', ')}`
    return [
      ...(passwordChanged ? [password] : []),
      ...(settings.length > 0 ? [{ ...finding, code: 'logins.settings', message: others }] : []),
    ]
  } catch (error) {
    const which = database === undefined ? "The login of tenants' queries" : `The login "${database}"`
    return [notExamined(`${which} on "${placement}"`, error, log)]
  }
}
